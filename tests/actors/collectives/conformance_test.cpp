#include "troupe/simulation/simulated_group.hpp"
#include "troupe/simulation/simulated_processes.hpp"
#include "troupe/tests/actors/collectives/lane_backends.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_ranks.hpp"
#include "troupe/tests/actors/group/actor_stage.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>

// What every collective backend guarantees. Each test runs over all backends:
// replicas that run in turn, replicas of one process, and simulated replicas
// and processes. Others are replicas of several processes over each kind of
// lane, or with NCCL on fake devices.

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t replicas = 5;

/// Replicas that use one kind of backend.
class job {
public:
  virtual ~job() = default;
  virtual std::uint64_t run(const run_request& request) = 0;
};

class sequential_job final : public job {
public:
  std::uint64_t run(const run_request& request) override {
    return group_->run(request);
  }

private:
  std::unique_ptr<replica_group> group_ =
    make_sequential_group({.replicas = replicas});
};

class local_job final : public job {
public:
  local_job(reduction reducing, bool via_mailbox,
            std::chrono::milliseconds step_timeout)
    : fixture_{{.replicas = replicas,
                .step_timeout = step_timeout,
                .reducers = reducing},
               via_mailbox} {}
  std::uint64_t run(const run_request& request) override {
    return fixture_.group->run(request);
  }

private:
  group_fixture fixture_;
};

class lane_job final : public job {
public:
  lane_job(const placement& where, const std::string& lanes,
           std::chrono::milliseconds step_timeout)
    : group_{where, lanes, step_timeout} {}
  std::uint64_t run(const run_request& request) override {
    return group_.run(request);
  }

private:
  lane_backend_group group_;
};

/// Makes the NCCL backends of a job on fake devices.
std::function<std::shared_ptr<collective_backend>(std::uint32_t)>
nccl_backends(const placement& where) {
  const auto nccl = std::make_shared<fake_nccl>(
    fake_nccl::options{.seed = 11, .steps_in_queries = true});
  const auto ids = std::make_shared<shared_ids>();
  std::vector<std::shared_ptr<nccl_collectives>> ranks;
  for (std::uint32_t p = 0; p < where.processes(); ++p)
    ranks.push_back(std::make_shared<nccl_collectives>(
      local_placement{where, p}, nccl->make_device(), ids,
      std::make_shared<threaded_blocking_calls>(),
      nccl_options{.finalize_timeout = 50ms}));
  return [=](std::uint32_t replica) {
    const auto rank = where.process_of(replica);
    return std::make_shared<nccl_backend>(
      ranks[rank], replica, std::make_shared<fake_stream>(nccl, rank));
  };
}

class nccl_job final : public job {
public:
  nccl_job(const placement& where, std::chrono::milliseconds step_timeout)
    : group_{where, nccl_backends(where), step_timeout} {}
  std::uint64_t run(const run_request& request) override {
    return group_.run(request);
  }

private:
  backend_group group_;
};

class simulated_job final : public job {
public:
  explicit simulated_job(const simulation::process_layout& layout)
    : group_{
      simulation::make_replica_group(sim_, {.replicas = replicas}, layout)} {}
  std::uint64_t run(const run_request& request) override {
    return group_->run(request);
  }

private:
  simulation::simulator sim_{7};
  std::unique_ptr<replica_group> group_;
};

struct backend_case {
  std::string name;
  /// Makes a job with a step timeout.
  std::function<std::unique_ptr<job>(std::chrono::milliseconds)> make;
  /// A replica that waits knows which replicas it waits for.
  bool names_missing_replicas = true;
};

std::vector<backend_case> all_backends() {
  using lists = std::vector<placement::id_list>;
  const lists scattered{{0, 3}, {1, 2, 4}};
  std::vector<backend_case> out{
    {"sequential", [](auto) { return std::make_unique<sequential_job>(); }},
  };
  for (const bool via_mailbox : {false, true})
    for (const auto reducing :
         {reduction::replica_threads, reduction::reducer_actors})
      out.push_back(
        {std::string{"local"}
           + (reducing == reduction::reducer_actors ? "_reducers" : "")
           + (via_mailbox ? "_mailbox" : ""),
         [=](auto timeout) {
           return std::make_unique<local_job>(reducing, via_mailbox, timeout);
         }});
  for (const auto& where :
       {placement::contiguous({5}), placement::contiguous({2, 3}),
        placement::contiguous({1, 1, 3}), placement{scattered},
        placement{lists{{4}, {0, 2}, {1, 3}}}}) {
    std::string by_process;
    for (std::uint32_t p = 0; p < where.processes(); ++p) {
      by_process += "_";
      for (const auto id : where.replicas_of(p))
        by_process += std::to_string(id);
    }
    for (const std::string lanes : {"shm", "zero-copy", "stream"})
      out.push_back(
        {"lane_" + (lanes == "zero-copy" ? "zero_copy" : lanes) + by_process,
         [=](auto timeout) {
           return std::make_unique<lane_job>(where, lanes, timeout);
         }});
    out.push_back(
      {"nccl" + by_process,
       [=](auto timeout) { return std::make_unique<nccl_job>(where, timeout); },
       // NCCL does not say which ranks it waits for.
       where.processes() == 1});
  }
  out.push_back({"simulated", [](auto) {
                   return std::make_unique<simulated_job>(
                     simulation::process_layout{});
                 }});
  out.push_back({"simulated_processes", [](auto) {
                   return std::make_unique<simulated_job>(
                     simulation::process_layout{.processes = 3});
                 }});
  out.push_back({"simulated_scattered", [scattered](auto) {
                   return std::make_unique<simulated_job>(
                     simulation::process_layout{
                       .processes = 2, .replicas_by_process = scattered});
                 }});
  return out;
}

class Backend : public ::testing::TestWithParam<backend_case> {
protected:
  /// Runs steps of one function.
  void run(std::uint64_t steps, const step_function& fn) {
    EXPECT_EQ(job_->run({next_, steps, fn, {}}), next_ + steps);
    next_ += steps;
  }

  /// Runs one step.
  /// @returns the text of its exception; empty: none.
  std::string error_of_step(const step_function& fn) {
    try {
      job_->run({next_, 1, fn, {}});
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  }

  std::unique_ptr<job> job_ = GetParam().make(60s);
  std::uint64_t next_ = 0; ///< Number of the next step.
};

INSTANTIATE_TEST_SUITE_P(All, Backend, ::testing::ValuesIn(all_backends()),
                         [](const auto& info) { return info.param.name; });

tensor numbers(std::size_t count, double first) {
  tensor out{shape{std::int64_t(count)}};
  std::iota(out.mutable_data<float>().begin(), out.mutable_data<float>().end(),
            float(first));
  return out;
}

} // namespace

// -- sums ---------------------------------------------------------------------

// A sum has the bits of the canonical tree, on all replicas.
TEST_P(Backend, SumsInTheOrderOfTheCanonicalTree) {
  outcome out;
  job_->run(out.request(0, 6));
  ASSERT_EQ(out.sums.size(), std::size_t{replicas} * 6 * 2);
  for (const auto& [key, sum] : out.sums) {
    const auto& [replica, step, bucket] = key;
    EXPECT_TRUE(same_bits(sum, expected_sum(0, replicas, step, bucket)))
      << "replica " << replica << ", step " << step << ", bucket " << bucket;
  }
}

// Sums may be awaited in another order than that of the contributions.
TEST_P(Backend, SumsMayBeAwaitedInAnyOrder) {
  run(4, [](step_context& step) {
    for (std::uint32_t b = 0; b < 6; ++b)
      step.contribute(b, tensor::full({100 * b + 1}, step.replica + b));
    for (const std::uint32_t b : {4, 0, 5, 2, 1, 3})
      EXPECT_EQ(step.sum(b).data<float>()[100 * b], float(10 + 5 * b));
    step.begin_update();
  });
}

// A sum may overwrite a contribution only if the replica permits that.
TEST_P(Backend, WritesAContributionOnlyIfItMay) {
  run(3, [](step_context& step) {
    const auto kept = numbers(70'000, step.replica),
               given = numbers(70'000, step.replica);
    step.contribute(0, kept);
    step.contribute_in_place(1, given);
    const auto first = step.sum(0), second = step.sum(1);
    step.begin_update();
    EXPECT_TRUE(same_bits(first, second));
    EXPECT_TRUE(same_bits(kept, numbers(70'000, step.replica)));
    EXPECT_EQ(first.data<float>()[1000], float(5 * 1000 + 10));
  });
}

TEST_P(Backend, SumsDoublesScalarsAndEmptyTensors) {
  run(2, [](step_context& step) {
    step.contribute(0, tensor::full({}, 0.1, dtype::float64));
    step.contribute(1, tensor{shape{0}});
    step.contribute(2, tensor::full({3, 2, 2}, step.step));
    // The order of the tree: ((a + a) + (a + a)) + a.
    EXPECT_EQ(step.sum(0).item<double>(), ((0.1 + 0.1) + (0.1 + 0.1)) + 0.1);
    EXPECT_EQ(step.sum(1).size(), 0u);
    EXPECT_EQ(step.sum(2).dims(), (shape{3, 2, 2}));
    EXPECT_EQ(step.sum(2).data<float>()[11], float(5 * step.step));
    step.begin_update();
  });
}

// -- gathers ------------------------------------------------------------------

// A gather returns tensors of any dtype and shape in order of replica id, and
// the caller may change its tensor after the call.
TEST_P(Backend, GathersCopiesInOrderOfReplicaId) {
  run(4, [](step_context& step) {
    auto own = tensor::full({1 + std::int64_t(step.replica) * 90'000},
                            step.replica + 10 * step.step, dtype::int32);
    const auto all = step.gather(8, own);
    own.mutable_data<std::int32_t>()[0] = -1;
    ASSERT_EQ(all.size(), std::size_t{replicas});
    for (std::uint32_t r = 0; r < replicas; ++r) {
      EXPECT_EQ(all[r].size(), 1 + r * 90'000u);
      EXPECT_EQ(all[r].data<std::int32_t>()[0], int(r + 10 * step.step));
    }
  });
}

// Gathers and sums of one step may use the same numbers.
TEST_P(Backend, KeepsGathersAndSumsApart) {
  run(2, [](step_context& step) {
    step.contribute(3, tensor::full({2}, 1));
    const auto all = step.gather(3, tensor::full({1}, step.replica));
    EXPECT_EQ(all[4].data<float>()[0], 4.f);
    EXPECT_EQ(step.sum(3).data<float>()[1], 5.f);
    step.begin_update();
  });
}

// No replica passes a barrier before all have come to it. All replicas get the
// values of all.
TEST_P(Backend, BarrierWaitsForAllReplicas) {
  std::atomic<std::uint32_t> arrived = 0;
  run(4, [&](step_context& step) {
    for (const std::uint32_t number : {0, 7}) {
      ++arrived;
      const auto all = step.barrier(number, ~std::uint64_t{step.replica});
      EXPECT_GE(arrived, replicas * (2 * step.step + (number == 0 ? 1 : 2)));
      ASSERT_EQ(all.size(), std::size_t{replicas});
      for (std::uint32_t r = 0; r < replicas; ++r)
        EXPECT_EQ(all[r], ~std::uint64_t{r});
    }
    step.begin_update();
  });
}

// A replica that does not come to a barrier is named.
TEST_P(Backend, NamesAReplicaThatMissesABarrier) {
  if (!GetParam().names_missing_replicas)
    GTEST_SKIP() << "the backend does not know which replicas are missing";
  const std::string missing = "missing replica 2";
  const auto text =
    troupe::test::with_sufficient_timeout(missing, [&](auto timeout) {
      job_ = GetParam().make(timeout); // simulated jobs have a virtual clock
      return error_of_step([](step_context& step) {
        if (step.replica != 2)
          step.barrier(0, 0);
      });
    });
  EXPECT_TRUE(mentions(text, "waits for the update")) << text;
  EXPECT_TRUE(mentions(text, missing)) << text;
}

// -- misuse -------------------------------------------------------------------

TEST_P(Backend, RejectsASecondContribution) {
  EXPECT_TRUE(mentions(error_of_step([](step_context& step) {
                         step.contribute(2, tensor::full({1}, 1));
                         step.contribute(2, tensor::full({1}, 1));
                       }),
                       "bucket 2 was contributed to twice in a step"));
}

TEST_P(Backend, RejectsASecondGather) {
  EXPECT_TRUE(mentions(error_of_step([](step_context& step) {
                         step.gather(2, tensor::full({1}, 1));
                         step.gather(2, tensor::full({1}, 1));
                       }),
                       "gather 2 was called twice in a step"));
}

TEST_P(Backend, RejectsASumWithoutAContribution) {
  EXPECT_TRUE(
    mentions(error_of_step([](step_context& step) { step.sum(6); }),
             "the sum of bucket 6 was requested before a contribution to it"));
}

// An update may not begin while a sum is incomplete: the replicas could not
// return to the state before the step.
TEST_P(Backend, RejectsAnUpdateBeforeASumIsComplete) {
  const auto text = error_of_step([](step_context& step) {
    if (step.replica != 0)
      return;
    step.contribute(4, tensor::full({1}, 1));
    step.begin_update();
  });
  EXPECT_TRUE(
    mentions(text, "the update began before the sum of bucket 4 was complete"))
    << text;
}

// Contributions of different shapes end the step with an error that shows both,
// with a replica and its call.
TEST_P(Backend, NamesContributionsThatDoNotMatch) {
  const auto text = error_of_step([](step_context& step) {
    step.contribute(6, tensor::full({step.replica == 3 ? 12 : 11}, 1));
    step.sum(6);
  });
  EXPECT_TRUE(mentions(text, "12")) << text;
  EXPECT_TRUE(mentions(text, "11")) << text;
  EXPECT_TRUE(mentions(text, "float32[11]") || mentions(text, "float32[12]"))
    << text;
  EXPECT_TRUE(mentions(text, "replica")) << text;
}

TEST_P(Backend, NamesDtypesThatDoNotMatch) {
  const auto text = error_of_step([](step_context& step) {
    step.contribute(
      6, tensor::full({8}, 1,
                      step.replica == 3 ? dtype::float64 : dtype::float32));
    step.sum(6);
  });
  for (const auto* word : {"float32", "float64", "bucket 6", "replica"})
    EXPECT_TRUE(mentions(text, word)) << word << ": " << text;
}

TEST_P(Backend, NamesOptionsThatDoNotMatch) {
  const auto text = error_of_step([](step_context& step) {
    step.options.bytes_per_pack = step.replica == 2 ? 7 : 0;
    step.contribute(1, tensor::full({4}, 1));
    step.sum(1);
  });
  EXPECT_TRUE(mentions(text, "bytes_per_pack 7")) << text;
}

// A replica that gathers where others sum ends the step at once, with an error
// that names both calls.
TEST_P(Backend, NamesASumAndAGatherThatDoNotMatch) {
  for (const std::uint32_t odd : {0u, 2u, 4u})
    for (const bool odd_gathers : {true, false}) {
      const auto text = error_of_step([&](step_context& step) {
        step.contribute(0, tensor::full({3}, 1));
        if ((step.replica == odd) == odd_gathers)
          step.gather(1, tensor::full({4, 2}, 1, dtype::int32));
        else
          step.contribute(1, tensor::full({12}, 1));
        step.sum(1);
      });
      const auto context = text + "; replica " + std::to_string(odd)
                           + (odd_gathers ? " gathers, the others sum"
                                          : " sums, the others gather");
      EXPECT_TRUE(mentions(text, "gather 1 of int32[4, 2]")) << context;
      EXPECT_TRUE(mentions(text, "bucket 1 of ")) << context;
      EXPECT_TRUE(mentions(text, "12")) << context;
      EXPECT_TRUE(mentions(text, "replica")) << context;
      EXPECT_TRUE(mentions(text, "do not call the same collectives"))
        << context;
    }
}

TEST_P(Backend, NamesOptionsOfGathersThatDoNotMatch) {
  const auto text = error_of_step([](step_context& step) {
    step.options.tensors = step.replica == 2 ? 2 : 3;
    step.gather(1, tensor::full({4}, 1));
  });
  EXPECT_TRUE(mentions(text, "2 tensors")) << text;
  EXPECT_TRUE(mentions(text, "3 tensors")) << text;
}

// -- ends of steps ------------------------------------------------------------

// An exception ends the step on all replicas. The next run begins with no
// contributions.
TEST_P(Backend, BeginsAnewAfterAnException) {
  const auto text = error_of_step([](step_context& step) {
    step.contribute(0, tensor::full({50'000}, 1));
    if (step.replica == 2)
      throw std::out_of_range("the user's error");
    step.sum(0);
    step.gather(0, tensor::full({1}, 1));
    ADD_FAILURE() << "replica 2 did not gather";
  });
  EXPECT_TRUE(mentions(text, "the user's error")) << text;
  outcome out;
  job_->run(out.request(0, 2));
  EXPECT_TRUE(
    same_bits(out.sums.at({4, 1, large}), expected_sum(0, replicas, 1, large)));
}

// A step whose function does not wait for its sums ends when they are complete.
TEST_P(Backend, CompletesSumsThatNoReplicaAwaits) {
  run(5, [](step_context& step) {
    step.contribute(0, tensor::full({80'000}, 1));
  });
  outcome out;
  job_->run(out.request(next_, 1));
  EXPECT_TRUE(same_bits(out.sums.at({0, next_, small}),
                        expected_sum(0, replicas, next_, small)));
}

// A replica that makes no call is named.
TEST_P(Backend, NamesAReplicaThatDoesNotContribute) {
  if (!GetParam().names_missing_replicas)
    GTEST_SKIP() << "the backend does not know which replicas are missing";
  const std::string missing = "missing replica 1";
  const auto text =
    troupe::test::with_sufficient_timeout(missing, [&](auto timeout) {
      job_ = GetParam().make(timeout);
      return error_of_step([](step_context& step) {
        if (step.replica == 1)
          return;
        step.contribute(3, tensor::full({1}, 1));
        step.sum(3);
      });
    });
  EXPECT_TRUE(mentions(text, "bucket 3")) << text;
  EXPECT_TRUE(mentions(text, missing)) << text;
}
