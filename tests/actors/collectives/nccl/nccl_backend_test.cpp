#include "troupe/actors/collectives/nccl/nccl_device.hpp"
#include "troupe/actors/collectives/nccl/nccl_watchdog.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_ranks.hpp"
#include "troupe/tests/actors/group/groups.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/placements.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::testing;
using troupe::test::becomes_true;
using namespace std::chrono_literals;

namespace {

using kind = fake_ranks::kind;
using wait_status = fake_ranks::wait_status;
using lists = std::vector<placement::id_list>;

constexpr collective_options by_tree{};
constexpr collective_options by_nccl{collective_options::algorithm_kind::nccl};
constexpr auto separate = collective::output_placement::separate;

const placement one_each = placement::contiguous({1, 1, 1, 1, 1});

/// Contributes to a bucket of the given number by all replicas.
void contribute_all(fake_ranks& job, std::uint64_t step, std::uint32_t bucket,
                    const collective_options& options = by_tree) {
  for (std::uint32_t r = 0; r < job.backends.size(); ++r)
    job.backends[r]->contribute(bucket, contribution_of(r, step, bucket),
                                options, separate);
}

/// Runs until all replicas have the sum, which must have the bits of the
/// canonical tree as soon as a wait for it is ready.
void expect_sums(fake_ranks& job, std::uint64_t step, std::uint32_t bucket) {
  const auto replicas = std::uint32_t(job.backends.size());
  const auto expected = expected_sum(0, replicas, step, bucket);
  std::vector<bool> correct(replicas);
  EXPECT_TRUE(job.run_until([&] {
    for (std::uint32_t r = 0; r < replicas; ++r)
      if (!correct[r]
          && job.status(r, {kind::sum, bucket}) == wait_status::ready) {
        EXPECT_TRUE(same_bits(job.backends[r]->sum_of(bucket), expected))
          << "replica " << r << ", step " << step << ", bucket " << bucket;
        correct[r] = true;
      }
    return std::ranges::count(correct, false) == 0;
  }));
}

/// Calls `fn` with each of several seeds, and says which one fails.
template <class F>
void for_seeds(unsigned count, F fn) {
  for (unsigned seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fn(seed);
    if (::testing::Test::HasFailure()) {
      std::cout << "seed " << seed << "\n";
      return;
    }
  }
}

} // namespace

// -- sums ---------------------------------------------------------------------

// The bits do not depend on the number of ranks, nor on which replicas a rank
// hosts.
TEST(NcclBackend, SumsHaveTheBitsOfTheCanonicalTree) {
  for (const auto& where :
       {one_each, placement::contiguous({5}), placement::contiguous({2, 3}),
        placement{lists{{0, 3}, {1, 2, 4}}},
        placement{lists{{4}, {0, 2}, {1, 3}}}})
    for_seeds(4, [&](unsigned seed) {
      fake_ranks job{where, seed};
      for (const std::uint64_t step : {0, 1}) {
        job.begin(1, step);
        contribute_all(job, step, large);
        contribute_all(job, step, small);
        expect_sums(job, step, small);
        expect_sums(job, step, large);
        EXPECT_TRUE(job.run_until(
          [&] { return job.all({kind::drained}, wait_status::ready); }));
        for (const auto& one : job.backends)
          one->end_step();
      }
    });
}

// A sum by NCCL's all-reduce is correct, but in another order of additions.
TEST(NcclBackend, AddsByTheAllReduceOfNccl) {
  for (const auto& where : {one_each, placement{lists{{0, 3}, {1, 2, 4}}}}) {
    fake_ranks job{where, 1};
    job.begin(1, 0);
    for (std::uint32_t r = 0; r < 5; ++r)
      job.backends[r]->contribute(0, tensor::full({1'000}, r + 1), by_nccl,
                                  separate);
    EXPECT_TRUE(job.run_until([&] {
      return job.all({kind::sum, 0}, wait_status::ready);
    }));
    for (const auto& one : job.backends)
      EXPECT_TRUE(same_bits(one->sum_of(0), tensor::full({1'000}, 15)));
  }
}

// NCCL hangs if ranks start groups in different orders.
TEST(NcclBackend, AllRanksStartTheSameGroups) {
  for_seeds(20, [](unsigned seed) {
    fake_ranks job{one_each, seed};
    job.begin(1, 0);
    std::vector<std::uint32_t> next(5);
    const auto call = [&](std::uint32_t r) {
      if (next[r] % 3 == 2)
        job.backends[r]->gather(next[r], tensor::full({7}, r, dtype::int32),
                                by_tree);
      else
        job.backends[r]->contribute(next[r], tensor::full({10 + next[r]}, r),
                                    by_tree, separate);
      ++next[r];
    };
    while (std::ranges::count(next, 9u) < 5) {
      if (const auto r = job.random() % 5; next[r] < 9)
        call(std::uint32_t(r));
      job.run_some(job.random() % 5);
    }
    EXPECT_TRUE(job.run_until(
      [&] { return job.all({kind::complete}, wait_status::ready); }));
    EXPECT_EQ(job.nccl->groups_of(0).size(), 18u);
    for (std::size_t p = 1; p < 5; ++p)
      EXPECT_EQ(job.nccl->groups_of(p), job.nccl->groups_of(0));
  });
}

// The gradient that the compute stream makes is added, and not what its memory
// holds at the call or later.
TEST(NcclBackend, ReadsAContributionInTheOrderOfTheComputeStream) {
  for_seeds(20, [](unsigned seed) {
    fake_ranks job{placement::contiguous({1, 1}), seed};
    for (std::uint64_t step = 0; step < 5; ++step) {
      job.begin(1, step);
      tensors gradients;
      for (std::uint32_t r = 0; r < 2; ++r) {
        gradients.push_back(tensor::full({500}, -1));
        const auto set = [gradient = gradients[r]](float value) {
          std::ranges::fill(tensor{gradient}.mutable_data<float>(), value);
        };
        for (int i = 0; i < 20; ++i) // the compute stream is behind
          job.compute[r]->call([=] { set(float(i)); });
        job.compute[r]->call([=] { set(float(r + 1)); });
        job.backends[r]->contribute(0, gradients[r], by_tree,
                                    collective::output_placement::in_place);
        job.compute[r]->call([=] { set(100); });
      }
      EXPECT_TRUE(job.run_until(
        [&] { return job.all({kind::drained}, wait_status::ready); }));
      for (const auto& one : job.backends) {
        EXPECT_TRUE(same_bits(one->sum_of(0), tensor::full({500}, 3)));
        one->end_step();
      }
    }
  });
}

// A sum of tensors on a device is on the device. A compute stream copies it
// there, and later work of the stream of any replica reads the sum. The memory
// from which it is copied is not used before for anything else.
TEST(NcclBackend, ASumOfTensorsOnADeviceIsCompleteForAllComputeStreams) {
  constexpr device gpu{device_kind::cuda, 0};
  test::simulated_devices devices;
  const auto run = [&](fake_ranks& job, std::uint64_t step) {
    job.begin(1, step);
    for (std::uint32_t r = 0; r < 3; ++r)
      job.backends[r]->contribute(
        large, contribution_of(r, step, large).to(gpu), by_tree, separate);
    const auto expected = expected_sum(0, 3, step, large);
    std::uint32_t read = 0;
    std::vector<bool> is_ready(3);
    EXPECT_TRUE(job.run_until([&] {
      for (std::uint32_t r = 0; r < 3; ++r)
        if (!is_ready[r]
            && job.status(r, {kind::sum, large}) == wait_status::ready) {
          is_ready[r] = true;
          const auto sum = job.backends[r]->sum_of(large);
          EXPECT_EQ(sum.device(), gpu);
          job.compute[r]->call([&read, sum, expected] {
            EXPECT_TRUE(same_bits(sum.to({}), expected));
            ++read;
          });
        }
      return read == 3;
    }));
    for (const auto& one : job.backends)
      one->end_step();
  };
  for (const auto& where :
       {placement::contiguous({1, 1, 1}), placement::contiguous({1, 2})})
    for_seeds(20, [&](unsigned seed) {
      fake_ranks job{where, seed};
      for (std::uint64_t step = 0; step < 4; ++step)
        run(job, step);
    });
}

// An update that is enqueued when a wait is ready reads complete sums: the
// event of each collective was seen.
TEST(NcclBackend, AWaitIsReadyOnlyAfterTheEventsOfAllCollectivesWereSeen) {
  for_seeds(15, [](unsigned seed) {
    fake_ranks job{one_each, seed};
    job.begin(1, 0);
    contribute_all(job, 0, large);
    contribute_all(job, 0, small);
    const auto expected_large = expected_sum(0, 5, 0, large);
    const auto expected_small = expected_sum(0, 5, 0, small);
    bool done = false;
    EXPECT_TRUE(job.run_until([&] {
      for (std::uint32_t r = 0; r < 5; ++r)
        if (job.status(r, {kind::drained}) == wait_status::ready) {
          EXPECT_TRUE(
            same_bits(job.backends[r]->sum_of(large), expected_large));
          EXPECT_TRUE(
            same_bits(job.backends[r]->sum_of(small), expected_small));
          done = true;
        }
      return done;
    }));
  });
}

// -- aborts -------------------------------------------------------------------

// A generation ends while a bucket is transferred. The ranks leave it at
// different times, and work of the old generation writes garbage while the new
// one runs.
TEST(NcclBackend, GarbageOfAnAbortedBucketReachesNoResult) {
  int middles = 0;
  for_seeds(60, [&](unsigned seed) {
    fake_ranks job{
      seed % 2 == 0 ? one_each : placement{lists{{0, 3}, {1, 2, 4}}}, seed};
    job.begin(1, 0);
    contribute_all(job, 0, large);
    contribute_all(job, 0, small);
    job.run_until([&] { return job.nccl->is_in_the_middle_of_a_group(); });
    job.run_some(job.random() % 4);
    middles += job.nccl->is_in_the_middle_of_a_group();
    for (std::uint32_t r = 0; r < 5; ++r) {
      job.backends[r]->end_step();
      job.begin_generation(r, 2);
      job.backends[r]->begin_step(0);
      for (const auto bucket : {large, small})
        job.backends[r]->contribute(bucket, contribution_of(r, 7, bucket),
                                    by_tree, separate);
      job.run_some(job.random() % 20);
    }
    expect_sums(job, 7, large);
    expect_sums(job, 7, small);
    EXPECT_EQ(job.backends[0]->last_failure(), std::nullopt);
  });
  EXPECT_GT(middles, 20);
}

// The memory of an aborted bucket is kept until the stream has drained.
TEST(NcclBackend, KeepsTheMemoryOfAnAbortedBucketUntilTheStreamHasDrained) {
  for_seeds(30, [](unsigned seed) {
    fake_ranks job{placement::contiguous({1, 1}), seed};
    job.begin(1, 0);
    contribute_all(job, 0, large);
    EXPECT_TRUE(
      job.run_until([&] { return job.nccl->is_in_the_middle_of_a_group(); }));
    job.backends[0]->end_step();
    EXPECT_FALSE(job.ranks[0]->is_drained());
    EXPECT_TRUE(job.run_until([&] { return job.ranks[0]->is_drained(); }));
    EXPECT_EQ(job.nccl->violations(), std::set<std::string>{});
    EXPECT_EQ(job.nccl->aborts, 1);
  });
}

// A rank that has left a step gets no result of it, even if the device makes
// it.
TEST(NcclBackend, NoSumIsVisibleAfterAnAbort) {
  for_seeds(30, [](unsigned seed) {
    fake_ranks job{one_each, seed};
    job.begin(1, 0);
    contribute_all(job, 0, large);
    job.run_some(job.random() % 200);
    if (job.status(2, {kind::sum, large}) == wait_status::ready)
      return;
    job.ranks[2]->abort(1, {ec::peer_lost, "process 1 is lost"});
    job.run_some(500);
    EXPECT_EQ(job.status(2, {kind::sum, large}), wait_status::failed);
    EXPECT_FALSE(job.backends[2]->sum_of(large));
    EXPECT_FALSE(job.backends[2]->is_current());
  });
}

TEST(NcclBackend, ReportsALostPeerToAllReplicasOfARank) {
  fake_ranks job{placement::contiguous({2, 1}), 3};
  job.begin(1, 0);
  for (std::uint32_t r = 0; r < 2; ++r)
    job.backends[r]->contribute(large, contribution_of(r, 0, large), by_tree,
                                separate);
  job.run_some(300);
  EXPECT_EQ(job.status(0, {kind::sum, large}), wait_status::pending);
  job.ranks[0]->abort(0, {ec::peer_lost, "of an older generation"});
  EXPECT_EQ(job.status(0, {kind::sum, large}), wait_status::pending);
  job.ranks[0]->abort(
    1, {ec::peer_lost, "the connection ended", 1,
        step_commit::suspicion{1, ec::peer_lost, "the connection ended"}});
  for (std::uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(job.status(r, {kind::sum, large}), wait_status::failed);
    EXPECT_EQ(job.backends[r]->last_failure()->suspect->process, 1u);
  }
}

// -- deadlines ----------------------------------------------------------------

TEST(NcclBackend, AbortsACollectiveThatMissesItsDeadline) {
  fake_ranks job{
    placement::contiguous({1, 1}), 1, {.operation_timeout = 2'000ms}};
  job.begin(1, 4);
  job.backends[0]->contribute(3, tensor::full({8}, 1), by_tree, separate);
  job.run_some(300);
  job.now += 1'999ms;
  EXPECT_EQ(job.status(0, {kind::sum, 3}), wait_status::pending);
  EXPECT_EQ(job.backends[0]->missing(4, {}), std::vector<std::uint32_t>{1});
  job.now += 1ms;
  job.ranks[0]->check();
  EXPECT_EQ(job.status(0, {kind::sum, 3}), wait_status::failed);
  EXPECT_EQ(job.backends[0]->last_failure()->code, ec::stalled);
  EXPECT_EQ(job.backends[0]->last_failure()->cause,
            "bucket 3 of step 4 is not complete after 2000 ms");
  EXPECT_TRUE(job.run_until([&] { return job.ranks[0]->is_drained(); }));
  EXPECT_EQ(job.nccl->aborts, 1);
}

// An error of NCCL is often the first sign of a lost peer. The chief decides
// what happened, so the replica does not report the error at once.
TEST(NcclBackend, ReportsAnErrorOfNcclAfterADelay) {
  fake_ranks job{
    placement::contiguous({1, 1}), 1, {.error_report_delay = 300ms}};
  job.begin(1, 0);
  job.backends[0]->contribute(0, tensor::full({8}, 1), by_tree, separate);
  job.run_some(300);
  job.nccl->fail_communicators("remote process exited");
  EXPECT_EQ(job.status(0, {kind::sum, 0}), wait_status::pending);
  EXPECT_EQ(job.backends[0]->last_failure(), std::nullopt);
  job.now += 300ms;
  EXPECT_EQ(job.status(0, {kind::sum, 0}), wait_status::failed);
  EXPECT_EQ(job.backends[0]->last_failure()->cause, "remote process exited");
  job.begin(2, 0); // a new generation has a new communicator
  EXPECT_EQ(job.backends[0]->last_failure(), std::nullopt);
  contribute_all(job, 0, large);
  expect_sums(job, 0, large);
}

// The view is renewed after `ec::unreachable`, so the host can add.
TEST(NcclBackend, ReportsTooLittleMemoryAsAnErrorOfNccl) {
  fake_ranks job{
    placement::contiguous({1, 1}), 1, {.error_report_delay = 300ms}};
  job.begin(1, 0);
  job.nccl->fail_next_allocation();
  contribute_all(job, 0, small);
  EXPECT_EQ(job.backends[0]->last_failure(), std::nullopt);
  job.now += 300ms;
  const auto failure = job.backends[0]->last_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ec::unreachable);
  EXPECT_EQ(failure->cause, "the device has too little memory");
  job.begin(2, 0);
  contribute_all(job, 0, small);
  expect_sums(job, 0, small);
}

// NCCL counts the groups of each thread. A group that is not ended would take
// up those of the next communicator, which then never enter the stream.
TEST(NcclBackend, EndsAGroupInWhichACallHasFailed) {
  for (const auto& options : {by_tree, by_nccl}) {
    fake_ranks job{
      placement::contiguous({1, 1, 1}), 1, {.error_report_delay = 300ms}};
    job.begin(1, 0);
    job.nccl->fail_next_transfer();
    contribute_all(job, 0, large, options);
    EXPECT_TRUE(
      job.run_until([&] { return job.nccl->has_failed_a_transfer(); }));
    job.now += 300ms;
    EXPECT_TRUE(job.run_until([&] {
      return std::ranges::any_of(job.backends, [](const auto& x) {
        return x->last_failure().has_value();
      });
    }));
    job.begin(2, 0);
    contribute_all(job, 0, large);
    expect_sums(job, 0, large);
  }
}

// The device accesses the memory of such a sum no more, so that it is freed.
TEST(NcclBackend, KeepsNoMemoryOfASumWhoseDeviceIsLost) {
  constexpr device gpu{device_kind::cuda, 0};
  test::simulated_devices devices;
  fake_ranks job{
    placement::contiguous({1, 1, 1}), 1, {.error_report_delay = 0ms}};
  job.begin(1, 0);
  job.nccl->lose_device_at_next_sum();
  for (std::uint32_t r = 0; r < 3; ++r)
    job.backends[r]->contribute(large, contribution_of(r, 0, large).to(gpu),
                                by_tree, separate);
  EXPECT_TRUE(job.run_until([&] {
    return std::ranges::any_of(job.backends, [](const auto& x) {
      return x->last_failure().has_value();
    });
  }));
  for (const auto& one : job.backends)
    one->end_step();
  for (const auto& rank : job.ranks)
    EXPECT_TRUE(job.run_until([&] { return rank->is_drained(); }));
}

// A driver may let an allocation, or the first launch of a kernel, wait for a
// kernel of NCCL that waits for another rank of this process. A second model,
// which has its own generations, needs memory of other sizes.
TEST(NcclBackend, HoldsTheFirstGroupsOfAGenerationUntilAReplicaWaits) {
  for_seeds(10, [](unsigned seed) {
    fake_ranks job{
      placement{lists{{0, 3}, {1, 2}}}, seed, {.holds_first_groups = true}};
    const auto contribute = [&](std::uint32_t bucket, std::int64_t elements) {
      for (std::uint32_t r = 0; r < 4; ++r)
        job.backends[r]->contribute(bucket, tensor::full({elements}, r + 1),
                                    by_tree, separate);
    };
    for (const std::int64_t generation : {1, 2})
      for (const std::uint64_t step : {0, 1}) {
        job.begin(std::uint64_t(generation), step);
        const auto before = job.nccl->groups_of(0).size();
        contribute(0, 10'000 * generation);
        job.run_some(job.random() % 200);
        contribute(1, 300 * generation);
        job.run_some(200);
        if (step == 0) {
          EXPECT_EQ(job.nccl->groups_of(0).size(), before);
        }
        for (const auto& rank : job.ranks)
          rank->start_groups();
        EXPECT_TRUE(job.run_until(
          [&] { return job.all({kind::drained}, wait_status::ready); }));
        for (const auto& one : job.backends) {
          EXPECT_TRUE(
            same_bits(one->sum_of(0), tensor::full({10'000 * generation}, 10)));
          EXPECT_TRUE(
            same_bits(one->sum_of(1), tensor::full({300 * generation}, 10)));
          one->end_step();
        }
      }
    EXPECT_EQ(job.nccl->late_allocations(), 0);
  });
}

// -- initialisation -----------------------------------------------------------

TEST(NcclBackend, CollectivesWaitForARankThatJoinsLate) {
  for_seeds(10, [](unsigned seed) {
    fake_ranks job{one_each, seed};
    for (std::uint32_t r = 0; r < 4; ++r) {
      job.begin_generation(r, 1);
      job.backends[r]->begin_step(0);
      job.backends[r]->contribute(small, contribution_of(r, 0, small), by_tree,
                                  separate);
    }
    job.run_some(300);
    EXPECT_EQ(job.status(0, {kind::sum, small}), wait_status::pending);
    EXPECT_EQ(job.nccl->joins, 4);
    job.begin_generation(4, 1);
    job.backends[4]->begin_step(0);
    job.backends[4]->contribute(small, contribution_of(4, 0, small), by_tree,
                                separate);
    expect_sums(job, 0, small);
  });
}

TEST(NcclBackend, AnInitialisationThatNeverEndsIsGivenUp) {
  fake_ranks job{placement::contiguous({1, 1}),
                 5,
                 {.initialize_timeout = 1'000ms, .error_report_delay = 10ms}};
  job.begin_generation(0, 1);
  job.backends[0]->begin_step(0);
  job.backends[0]->contribute(0, tensor::full({8}, 1), by_tree, separate);
  job.run_some(300);
  job.now += 1'000ms;
  job.ranks[0]->check();
  job.now += 10ms;
  EXPECT_EQ(job.status(0, {kind::sum, 0}), wait_status::failed);
  EXPECT_EQ(job.backends[0]->last_failure()->cause,
            "not all 2 ranks have joined the communicator of generation 1 "
            "within 1000 ms");
  job.begin(2, 0);
  contribute_all(job, 0, small);
  expect_sums(job, 0, small);
}

TEST(NcclBackend, AnIdThatNeverArrivesIsGivenUp) {
  fake_ranks job{placement::contiguous({1, 1}),
                 5,
                 {.initialize_timeout = 1'000ms, .error_report_delay = 0ms}};
  job.ids->delivers = false;
  job.begin(1, 0);
  job.run_some(300);
  EXPECT_EQ(job.nccl->joins, 1);
  job.now += 1'000ms;
  EXPECT_TRUE(job.all({kind::gather, 0}, wait_status::failed));
  job.ids->delivers = true;
  job.begin(2, 0);
  contribute_all(job, 0, small);
  expect_sums(job, 0, small);
}

// A generation can end while its communicator is initialised.
TEST(NcclBackend, ANewGenerationBeginsDuringTheInitialisation) {
  for_seeds(40, [](unsigned seed) {
    fake_ranks job{one_each, seed};
    job.begin(1, 0);
    contribute_all(job, 0, small);
    job.run_some(job.random() % 25);
    for (std::uint64_t generation = 2; generation < 5; ++generation)
      for (std::uint32_t r = 0; r < 5; ++r) {
        job.begin_generation(r, generation);
        job.run_some(job.random() % 6);
      }
    job.begin(4, 0);
    contribute_all(job, 0, small);
    expect_sums(job, 0, small);
  });
}

// No call of a replica waits for a call of NCCL that blocks, and the watchdog
// ends what the replica does not.
TEST(NcclBackend, ABlockedInitialisationBlocksNoReplica) {
  const auto nccl = std::make_shared<fake_nccl>(fake_nccl::options{
    .seed = 1, .steps_in_queries = true, .blocks_initialize = true});
  std::atomic<int> milliseconds = 0;
  const auto rank = std::make_shared<nccl_collectives>(
    local_placement{placement::contiguous({1}), 0}, nccl->make_device(),
    std::make_shared<shared_ids>(), std::make_shared<threaded_blocking_calls>(),
    nccl_options{.initialize_timeout = 20ms,
                 .error_report_delay = 0ms,
                 .now = [&milliseconds] {
                   return std::chrono::steady_clock::time_point{
                     std::chrono::milliseconds{milliseconds}};
                 }});
  nccl_backend replica{rank, 0, std::make_shared<fake_stream>(nccl, 0)};
  const nccl_watchdog watchdog{rank, 1ms};
  replica.begin_generation(1);
  replica.begin_step(0);
  replica.contribute(0, tensor::full({8}, 1), by_tree, separate);
  // Otherwise the backend gives up while it makes the id.
  ASSERT_TRUE(
    becomes_true([&] { return nccl->count(nccl->initializations) == 1; }));
  milliseconds = 20;
  EXPECT_TRUE(becomes_true([&] { return replica.last_failure().has_value(); }));
  EXPECT_EQ(replica.wait({kind::sum, 0}, true), wait_status::failed);
  nccl->unblock();
  replica.begin_generation(2);
  replica.begin_step(0);
  replica.contribute(0, tensor::full({8}, 2), by_tree, separate);
  EXPECT_TRUE(becomes_true([&] {
    return replica.wait({kind::sum, 0}, true) == wait_status::ready;
  }));
  EXPECT_TRUE(same_bits(replica.sum_of(0), tensor::full({8}, 2)));
  // The call of the first generation has ended its communicator itself.
  EXPECT_TRUE(becomes_true([&] { return nccl->count(nccl->aborts) == 1; }));
}

// -- ends of generations ------------------------------------------------------

TEST(NcclBackend, AGenerationWithoutOpenCollectivesEndsWithoutAnAbort) {
  fake_ranks job{placement::contiguous({1, 1}), 2};
  job.begin(1, 0);
  contribute_all(job, 0, small);
  expect_sums(job, 0, small);
  for (const auto& one : job.backends)
    one->end_step();
  job.begin(2, 0);
  contribute_all(job, 1, small);
  expect_sums(job, 1, small);
  EXPECT_EQ(job.nccl->finalizes, 2);
  EXPECT_EQ(job.nccl->aborts, 0);
}

// A lost rank does not end its communicator, so an orderly end has a deadline.
TEST(NcclBackend, AnEndWithoutTheOtherRanksBecomesAnAbort) {
  fake_ranks job{placement::contiguous({1, 1}), 2, {.finalize_timeout = 100ms}};
  job.begin(1, 0);
  contribute_all(job, 0, small);
  expect_sums(job, 0, small);
  job.backends[0]->end_step();
  job.begin_generation(0, 2);
  job.run_some(300);
  EXPECT_EQ(job.nccl->aborts, 0);
  job.now += 100ms;
  EXPECT_TRUE(job.run_until([&] { return job.ranks[0]->is_drained(); }));
  EXPECT_EQ(job.nccl->aborts, 1);
}

// -- records ------------------------------------------------------------------

// Other sizes would make NCCL hang. All ranks name both calls.
TEST(NcclBackend, AllRanksNameContributionsThatDoNotMatch) {
  for_seeds(10, [](unsigned seed) {
    fake_ranks job{one_each, seed};
    job.begin(1, 6);
    for (std::uint32_t r = 0; r < 5; ++r)
      job.backends[r]->contribute(2, tensor::full({r == 3 ? 12 : 11}, 1),
                                  by_tree, separate);
    EXPECT_TRUE(job.run_until([&] {
      return job.all({kind::sum, 2}, wait_status::failed);
    }));
    EXPECT_EQ(job.backends[0]->last_failure()->cause,
              "replica 3 called bucket 2 of float32[12] by tree as operation 0 "
              "of step 6, replica 0 called bucket 2 of float32[11] by tree as "
              "operation 0 of step 6: the replicas do not pass the same spec");
    for (const auto& one : job.backends) {
      EXPECT_EQ(one->last_failure()->code, ec::protocol);
      EXPECT_TRUE(mentions(one->last_failure()->cause, "float32[12]"));
      EXPECT_TRUE(mentions(one->last_failure()->cause, "float32[11]"));
    }
  });
}

TEST(NcclBackend, ARecordSurvivesItsBytes) {
  const call_record record{.replica = 7,
                           .step = 1ull << 40,
                           .sequence = 3,
                           .is_gather = true,
                           .bucket = 9,
                           .spec = {{4, 0, 2}, dtype::int64},
                           .options = {by_nccl.algorithm, 250, 1 << 20, 8}};
  call_record decoded;
  ASSERT_TRUE(read(write(record), decoded));
  EXPECT_EQ(decoded, record);
  auto bytes = write(record);
  bytes[bytes.size() - 72] = std::byte{200}; // the rank of the spec
  EXPECT_FALSE(read(bytes, decoded));
}

// Without CUDA in the build, or without a driver.
TEST(NcclDevice, SaysWhyADeviceCannotBeUsed) {
  try {
    make_nccl_device(0);
    GTEST_SKIP() << "this machine has a device";
  } catch (const device_error& e) {
    EXPECT_TRUE(mentions(e.what(), "cuda:0 cannot be used")) << e.what();
  }
}
