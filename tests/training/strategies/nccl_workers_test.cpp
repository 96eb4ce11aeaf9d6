#include "nccl_workers.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/error_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// Workers with one device each.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

// -- bits ---------------------------------------------------------------------

TEST(NcclWorkers, FitHasTheBitsOfTheHost) {
  for (const std::uint32_t count : {1, 2, 3, 4})
    expect_by_nccl(count, weights_after_fit, weights_after_fit(turns(count)));
}

/// Counts the packets of sums that leave a worker over a lane.
class sum_counter final : public fault_injector {
public:
  injected_fault on_send(const role_id&, const role_id&, message_kind kind,
                         std::uint64_t, std::uint64_t) override {
    if (kind == message_kind::contribution)
      ++sums;
    return {};
  }
  std::atomic<int> sums = 0;
};

TEST(NcclWorkers, GradientsPassOverLanesOnlyIfTheHostAddsThem) {
  for (const auto how : {backends::host, backends::nccl}) {
    nccl_workers workers;
    const auto counter = std::make_shared<sum_counter>();
    workers.options.communication.collectives = how;
    workers.options.faults = counter;
    expect_nothing_thrown(run_on_cluster(
      2, workers.options, [&](const strategy& on, std::uint32_t) {
        EXPECT_EQ(uses_nccl(on), how == backends::nccl);
        weights_after_fit(on);
      }));
    EXPECT_EQ(workers.groups() > 0, how == backends::nccl);
    EXPECT_EQ(counter->sums > 0, how == backends::host);
  }
}

TEST(NcclWorkers, TheAllReduceOfNcclTrains) {
  nccl_workers workers;
  workers.options.communication = {.implementation = implementations::nccl};
  std::vector<std::string> found(2);
  expect_nothing_thrown(run_on_cluster(
    2, workers.options, [&](const strategy& on, std::uint32_t w) {
      EXPECT_TRUE(uses_nccl(on));
      found[w] = weights_after_fit(on);
    }));
  // The sum of two addends does not depend on their order.
  for (const auto& one : found)
    EXPECT_EQ(one, weights_after_fit(turns(2)));
  const auto groups = workers.nccl->groups_of(0);
  EXPECT_TRUE(std::ranges::any_of(
    groups, [](const std::string& text) { return text.starts_with("sum "); }));
}

TEST(NcclWorkers, FrozenVariablesAndSkippedStepsHaveTheBitsOfTheCpu) {
  const auto run = [](const strategy& on) {
    auto all = digits_200().examples(0, 80);
    auto inputs = all.inputs.clone();
    inputs.mutable_data<float>()[784 * 30] =
      std::numeric_limits<float>::quiet_NaN();
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 2, .on_nan = on_nan::skip};
    how.trainable = [](const variable& x) { return x.dims().rank() == 2; };
    it.fit(data::dataset{inputs, all.labels, 10}.batch(20), how);
    return it.weights_sha256();
  };
  expect_by_nccl(2, run, run(turns(2)));
}

/// The gradients are finite, so only the loss of one replica tells.
TEST(NcclWorkers, AnInfiniteLossOfOneReplicaIsSkipped) {
  models::register_loss(
    {"infinite_loss_of_the_nccl_workers_test", models::target_kind::any,
     [](const tensor& outputs, const tensor& labels) {
       const auto huge = labels.as(dtype::float32) * 1e38;
       return models::cross_entropy(outputs, (labels * 0.0).as(dtype::int32))
              + huge * 9;
     }});
  const auto run = [](const strategy& on) {
    auto some = digits_200().examples(0, 8);
    auto labels = tensor::full({8}, 0);
    labels.mutable_data<float>()[6] = 1; // of the last replica
    const auto scope = on.scope();
    model it{
      small_net(), sgd{}, {.loss = "infinite_loss_of_the_nccl_workers_test"}};
    const auto before = it.weights_sha256();
    for (int i = 0; i < 6; ++i)
      it.fit(data::dataset{some.inputs, labels}.batch(8),
             {.on_nan = on_nan::skip});
    EXPECT_EQ(it.weights_sha256(), before);
    return it.weights_sha256();
  };
  expect_by_nccl(2, run, run(turns(2)));
}

/// Each epoch and each evaluation begins another generation.
TEST(NcclWorkers, LaterGenerationsHaveCommunicatorsOfTheirOwn) {
  const auto run = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.fit(uneven_batches());
    const auto between = it.evaluate(digits_200().batch(48)).loss;
    it.fit(uneven_batches());
    return std::pair{it.weights_sha256(), between};
  };
  nccl_workers workers;
  std::vector<std::pair<std::string, double>> found(2);
  expect_nothing_thrown(run_on_cluster(
    2, workers.options,
    [&](const strategy& on, std::uint32_t w) { found[w] = run(on); }));
  for (const auto& one : found)
    EXPECT_EQ(one, run(turns(2)));
  EXPECT_EQ(workers.nccl->count(workers.nccl->joins), 4);
}

// -- losses -------------------------------------------------------------------

/// Trains on three workers. When worker `lost` is in a step of the first epoch,
/// its process ends in the middle of a bucket.
void expect_recovery_in_the_middle_of_a_bucket(std::uint32_t lost) {
  constexpr std::uint32_t count = 3;
  nccl_workers workers;
  std::atomic<const strategy*> victim = nullptr;
  std::atomic<bool> may_watch = false, was_frozen = false;
  std::thread watch{[&] {
    if (!becomes_true([&] { return may_watch && workers.nccl->is_frozen(); }))
      return;
    was_frozen = true;
    cut_off(*victim);
  }};
  std::vector<std::string> weights(count);
  const auto thrown = run_on_cluster(
    count, workers.options, [&](const strategy& on, std::uint32_t w) {
      if (w == lost)
        victim = &on;
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == lost && x.step == 7 && !may_watch.exchange(true))
          workers.nccl->freeze_in_the_middle();
      }});
      it.fit(uneven_batches(), how);
      weights[w] = it.weights_sha256();
      EXPECT_TRUE(uses_nccl(on));
    });
  watch.join();
  EXPECT_TRUE(was_frozen);
  EXPECT_GT(workers.nccl->count(workers.nccl->aborts), 0);
  for (std::uint32_t w = 0; w < count; ++w)
    if (w == lost) {
      EXPECT_NE(exception_text(thrown[w]), "");
    } else {
      EXPECT_EQ(exception_text(thrown[w]), "");
      EXPECT_EQ(weights[w], weights_after_fit(turns(count)));
    }
}

TEST(NcclWorkers, TheChiefIsLostInTheMiddleOfABucket) {
  expect_recovery_in_the_middle_of_a_bucket(0);
}

TEST(NcclWorkers, AWorkerIsLostInTheMiddleOfABucket) {
  expect_recovery_in_the_middle_of_a_bucket(2);
}

/// When a worker leaves, the other one hosts both replicas. Its communicator
/// has one rank.
TEST(NcclWorkers, TheLastWorkerGoesOnWithBothReplicas) {
  const auto fit = [](const strategy& on, const std::atomic<bool>& leave) {
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 5};
    how.leave = &leave;
    it.fit(uneven_batches(), how);
    return it.weights_sha256();
  };
  nccl_workers workers;
  std::array<std::atomic<bool>, 2> leaves{false, true};
  std::string weights;
  expect_nothing_thrown(run_on_cluster(
    2, workers.options, [&](const strategy& on, std::uint32_t w) {
      if (w == 1) {
        fit(on, leaves[1]);
        return;
      }
      weights = fit(on, leaves[0]);
      EXPECT_GT(on.state()->views, 0u);
      EXPECT_TRUE(on.state()->cluster->uses_nccl());
    }));
  EXPECT_EQ(weights, fit(turns(2), leaves[0]));
}

/// A rank that stands still for good is noticed, and the error says what the
/// job waits for.
TEST(NcclWorkers, ASumThatNeverEndsEndsTheJob) {
  nccl_workers workers;
  workers.options.communication.timeout = 5s;
  const auto thrown = run_on_cluster(
    2, workers.options, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 0 && x.step == 3)
          workers.nccl->freeze_in_the_middle();
      }});
      it.fit(uneven_batches(), how);
    });
  for (const auto& one : thrown) {
    const auto text = exception_text(one);
    EXPECT_NE(text.find("stalled"), text.npos) << text;
    EXPECT_NE(text.find("replica 0 waits for the sum of bucket 0"), text.npos)
      << text;
  }
  EXPECT_TRUE(workers.nccl->is_frozen());
  EXPECT_GE(workers.nccl->count(workers.nccl->aborts), 2);
}

/// Trains on two workers, with an error after a step. The job goes on; if NCCL
/// is not required, the host adds from then on.
/// @param error makes the error.
void expect_job_goes_on_after(const std::function<void(fake_nccl&)>& error) {
  const auto expected = weights_after_fit(turns(2));
  for (const auto how : {backends::automatic, backends::nccl}) {
    nccl_workers workers;
    workers.options.communication.collectives = how;
    workers.options.communication.timeout = 20s;
    expect_nothing_thrown(run_on_cluster(
      2, workers.options, [&](const strategy& on, std::uint32_t w) {
        EXPECT_TRUE(uses_nccl(on));
        const auto scope = on.scope();
        auto it = small_model();
        fit_options options{.epochs = 2};
        options.callbacks.push_back({.on_step = [&](const step_record& x) {
          if (w == 0 && x.step == 7 && !x.repeated)
            error(*workers.nccl);
        }});
        it.fit(uneven_batches(), options);
        EXPECT_EQ(it.weights_sha256(), expected);
        EXPECT_EQ(uses_nccl(on), how == backends::nccl) << on.transport();
        EXPECT_GT(on.state()->views, 0u);
      }));
  }
}

TEST(NcclWorkers, TheJobGoesOnAfterAnErrorOfNccl) {
  expect_job_goes_on_after(
    [](fake_nccl& nccl) { nccl.fail_communicators("a cable is broken"); });
}

TEST(NcclWorkers, TheJobGoesOnIfADeviceHasTooLittleMemory) {
  expect_job_goes_on_after(
    [](fake_nccl& nccl) { nccl.fail_next_allocation(); });
}

// -- what cannot be -----------------------------------------------------------

/// Returns what each worker throws.
std::vector<std::string> texts_of(nccl_workers& workers) {
  std::vector<std::string> out;
  for (const auto& x :
       run_on_cluster(2, workers.options, [](const strategy&on, std::uint32_t) {
         weights_after_fit(on);
       }))
    out.push_back(exception_text(x));
  return out;
}

void expect_each_has(const std::vector<std::string>& texts,
                     const std::string& part) {
  for (const auto& one : texts)
    EXPECT_NE(one.find(part), one.npos) << one;
}

TEST(NcclWorkers, TwoWorkersOnOneCardAreRefused) {
  nccl_workers workers{{{"GPU-7"}, {"GPU-7"}}};
  expect_each_has(texts_of(workers),
                  "worker 0 and worker 1 have the same card (GPU-7), but NCCL "
                  "needs one for each worker");
  EXPECT_EQ(workers.nccl->count(workers.nccl->initializations), 0);
}

TEST(NcclWorkers, OtherVersionsOfNcclAreRefused) {
  nccl_workers workers{
    {{.library_version = "2.28.3"}, {.library_version = "2.27.7"}}};
  for (const auto& text : texts_of(workers)) {
    EXPECT_NE(text.find("NCCL 2.28.3"), text.npos) << text;
    EXPECT_NE(text.find("NCCL 2.27.7"), text.npos) << text;
    EXPECT_NE(text.find("install one version"), text.npos) << text;
  }
  EXPECT_EQ(workers.nccl->count(workers.nccl->initializations), 0);
}

TEST(NcclWorkers, AProcessorHasNoNccl) {
  nccl_workers workers;
  workers.options.devices = {"cpu:0"};
  expect_each_has(texts_of(workers),
                  "collectives nccl: cpu:0 is no CUDA device");
}

TEST(NcclWorkers, AMissingLibraryIsASentence) {
  nccl_workers workers;
  workers.options.nccl_device =
    [](const device&) -> std::shared_ptr<communication_device> {
    throw device_error{"NCCL cannot be used: libnccl.so.2 was not found"};
  };
  expect_each_has(texts_of(workers),
                  "collectives nccl: NCCL cannot be used: libnccl.so.2 was not "
                  "found; name a CUDA device of a machine with NCCL, as in "
                  "gpu:0, or give collectives host");
}

TEST(NcclWorkers, ABrokenCardIsASentence) {
  for (const auto broken : {broken_call::identity, broken_call::make_stream}) {
    nccl_workers workers{{{.broken = broken}}};
    expect_each_has(texts_of(workers), "failed: the card is broken");
  }
}

/// `automatic` uses the host where `nccl` is refused, with the same bits.
TEST(NcclWorkers, AutomaticAddsOnTheHostIfAWorkerCannotUseNccl) {
  const auto expected = weights_after_fit(turns(2));
  const auto expect_host = [&](nccl_workers& workers) {
    workers.options.communication.collectives = backends::automatic;
    expect_nothing_thrown(run_on_cluster(
      2, workers.options, [&](const strategy& on, std::uint32_t) {
        EXPECT_FALSE(uses_nccl(on)) << on.transport();
        EXPECT_EQ(weights_after_fit(on), expected);
      }));
    EXPECT_EQ(workers.nccl->count(workers.nccl->initializations), 0);
  };
  {
    nccl_workers same_card{{{"GPU-7"}, {"GPU-7"}}};
    expect_host(same_card);
  }
  {
    nccl_workers without_library;
    const auto make = without_library.options.nccl_device;
    without_library.options.nccl_device =
      [=, n = std::make_shared<std::atomic<int>>(0)](const device& on) {
        if ((*n)++ == 0)
          throw device_error{"there is no NCCL"};
        return make(on);
      };
    expect_host(without_library);
  }
  for (const auto broken : {broken_call::identity, broken_call::make_stream}) {
    nccl_workers with_broken_card{{{.broken = broken}}};
    expect_host(with_broken_card);
  }
  {
    nccl_workers by_ring;
    by_ring.options.communication.implementation = implementations::ring;
    expect_host(by_ring);
  }
}

TEST(NcclWorkers, AutomaticUsesNcclIfAllWorkersCan) {
  nccl_workers workers;
  workers.options.communication.collectives = backends::automatic;
  expect_nothing_thrown(
    run_on_cluster(2, workers.options, [](const strategy& on, std::uint32_t) {
      EXPECT_TRUE(uses_nccl(on)) << on.transport();
      EXPECT_EQ(weights_after_fit(on), weights_after_fit(turns(2)));
    }));
}

} // namespace
