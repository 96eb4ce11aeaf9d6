#include "losses.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

struct outcome {
  std::string weights; ///< Empty: the fit threw.
  step_list steps;
  history past;
};

struct lost_worker {
  std::uint32_t worker;
  std::uint64_t step; ///< An epoch has 13 steps, and there are two epochs.
};

/// Trains on a cluster, and cuts off workers in their callbacks of a step.
std::vector<outcome> fit_with_losses(std::uint32_t workers,
                                     const std::vector<lost_worker>& losses,
                                     const multi_worker_options& options = {}) {
  std::vector<outcome> out(workers);
  const auto thrown =
    run_on_cluster(workers, options, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.validation = uneven_batches();
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (x.repeated)
          return;
        out[w].steps.push_back(x.step);
        for (const auto& loss : losses)
          if (w == loss.worker && x.step == loss.step)
            cut_off(on);
      }});
      out[w].past = it.fit(uneven_batches(), how);
      out[w].weights = it.weights_sha256();
    });
  for (std::uint32_t w = 0; w < workers; ++w) {
    const bool lost = std::ranges::any_of(
      losses, [w](const lost_worker& x) { return x.worker == w; });
    EXPECT_EQ(exception_text(thrown[w]).empty(), !lost)
      << "worker " << w << ": " << exception_text(thrown[w]);
  }
  return out;
}

/// What one process gives.
outcome undisturbed(std::uint32_t replicas) {
  const auto on = turns(replicas);
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how{.epochs = 2};
  how.validation = uneven_batches();
  outcome out;
  out.past = it.fit(uneven_batches(), how);
  out.weights = it.weights_sha256();
  out.steps = steps_to(it.steps());
  return out;
}

void expect_equal(const outcome& found, const outcome& expected) {
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.steps, expected.steps);
  ASSERT_EQ(found.past.epochs.size(), expected.past.epochs.size());
  for (std::size_t e = 0; e < found.past.epochs.size(); ++e) {
    const auto& a = found.past.epochs[e];
    const auto& b = expected.past.epochs[e];
    EXPECT_EQ(a.examples, b.examples);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.accuracy, b.accuracy);
    EXPECT_EQ(a.validation_loss, b.validation_loss);
  }
}

void PrintTo(const std::vector<lost_worker>& losses, std::ostream* out) {
  for (const auto& x : losses)
    *out << "worker " << x.worker << " after step " << x.step << "; ";
}

/// Expects the undisturbed result from all workers that are not lost.
void expect_recovery(std::uint32_t workers,
                     const std::vector<lost_worker>& losses,
                     const multi_worker_options& options = {}) {
  const auto found = fit_with_losses(workers, losses, options);
  const auto expected =
    undisturbed(workers * static_cast<std::uint32_t>(options.devices.size()));
  for (std::uint32_t w = 0; w < workers; ++w)
    if (std::ranges::none_of(
          losses, [w](const lost_worker& x) { return x.worker == w; }))
      expect_equal(found[w], expected);
}

class FitRecovery : public ::testing::TestWithParam<std::vector<lost_worker>> {
};

using losses = std::vector<lost_worker>;

TEST_P(FitRecovery, GivesTheUndisturbedResult) {
  expect_recovery(3, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, FitRecovery,
                         ::testing::Values(losses{{0, 0}}, losses{{0, 5}},
                                           losses{{1, 5}}, losses{{2, 5}},
                                           losses{{0, 12}}, losses{{1, 12}},
                                           losses{{2, 12}}, losses{{0, 25}},
                                           losses{{1, 20}}));

class FitRecoveryOfFive
  : public ::testing::TestWithParam<std::vector<lost_worker>> {};

TEST_P(FitRecoveryOfFive, GivesTheUndisturbedResult) {
  expect_recovery(5, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, FitRecoveryOfFive,
                         ::testing::Values(losses{{1, 5}, {3, 5}},
                                           losses{{0, 5}, {1, 6}},
                                           losses{{4, 3}, {0, 20}}));

TEST(FitRecoveryCases, SeveralReplicasInEachProcess) {
  multi_worker_options options;
  options.devices = {"cpu:0", "cpu:1"};
  for (const std::uint32_t lost : {0, 2})
    expect_recovery(3, {{lost, 7}}, options);
}

TEST(FitRecoveryCases, OnADevice) {
  simulated_devices devices;
  multi_worker_options options;
  options.devices = {"cuda:0"};
  for (const std::uint32_t lost : {0, 2})
    expect_recovery(3, {{lost, 7}}, options);
}

TEST(FitRecoveryCases, AWorkerThatIsAStepBehindCopiesTheState) {
  const auto faults = std::make_shared<one_step_apart>();
  multi_worker_options options;
  options.faults = faults;
  std::vector<outcome> found(3);
  const auto thrown =
    run_on_cluster(3, options, [&](const strategy& on, std::uint32_t w) {
      if (w == 2)
        faults->victim = &on;
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.validation = uneven_batches();
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (!x.repeated)
          found[w].steps.push_back(x.step);
      }});
      found[w].past = it.fit(uneven_batches(), how);
      found[w].weights = it.weights_sha256();
    });
  EXPECT_TRUE(faults->ahead);
  EXPECT_NE(exception_text(thrown[2]), "");
  const auto expected = undisturbed(3);
  for (const std::uint32_t w : {0, 1}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    expect_equal(found[w], expected);
  }
}

// -- callbacks ----------------------------------------------------------------

/// A call of a callback that a worker has completed as the chief.
struct call_of_chief {
  std::uint32_t worker;
  std::uint64_t number; ///< Of the step, or of the epoch.
  bool repeated;
};

class CallbackRecovery : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(CallbackRecovery, TheChiefsTogetherCompleteEachStepInOrder) {
  const auto lost_in = GetParam();
  std::mutex lock;
  std::vector<call_of_chief> calls;
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      bool is_cut = false;
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 0 && x.step == lost_in) {
          cut_off(on);
          is_cut = true; // it does not complete this call, and none after it
        }
        if (is_cut || !on.is_chief())
          return;
        const std::lock_guard hold{lock};
        calls.push_back({w, x.step, x.repeated});
      }});
      it.fit(uneven_batches(), how);
    });
  EXPECT_NE(exception_text(thrown[0]), "");
  EXPECT_EQ(exception_text(thrown[1]), "");
  EXPECT_EQ(exception_text(thrown[2]), "");
  step_list of_first, of_second;
  for (const auto& x : calls) {
    EXPECT_FALSE(x.repeated && x.worker == 0);
    EXPECT_NE(x.worker, 2u);
    (x.worker == 0 ? of_first : of_second).push_back(x.number);
  }
  EXPECT_EQ(of_first, steps_to(lost_in));
  ASSERT_FALSE(of_second.empty());
  EXPECT_LE(of_second.front(), lost_in);
  for (std::size_t i = 0; i < of_second.size(); ++i)
    EXPECT_EQ(of_second[i], of_second.front() + i);
  EXPECT_EQ(of_second.back(), 25u);
}

INSTANTIATE_TEST_SUITE_P(All, CallbackRecovery,
                         ::testing::Values(0, 5, 12, 25));

TEST(CallbackRecoveryCases, TheSuccessorRepeatsTheCallOfAnEpoch) {
  std::vector<std::vector<std::pair<std::uint64_t, bool>>> calls(3);
  call_counter of_others;
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_epoch_end = [&](const epoch_record& x) {
        calls[w].emplace_back(x.epoch, x.repeated);
        if (w == 0 && x.epoch == 1) {
          of_others.wait_for(2);
          cut_off(on);
        }
        of_others.count();
      }});
      const auto past = it.fit(uneven_batches(), how);
      for (const auto& x : past.epochs)
        EXPECT_FALSE(x.repeated);
    });
  EXPECT_NE(exception_text(thrown[0]), "");
  EXPECT_EQ(exception_text(thrown[1]), "");
  EXPECT_EQ(exception_text(thrown[2]), "");
  using list = std::vector<std::pair<std::uint64_t, bool>>;
  EXPECT_EQ(calls[0], (list{{1, false}}));
  EXPECT_EQ(calls[1], (list{{1, false}, {1, true}, {2, false}}));
  EXPECT_EQ(calls[2], (list{{1, false}, {2, false}}));
}

TEST(CallbackRecoveryCases, AnExceptionInARepeatedCallEndsTheFitOnAllWorkers) {
  call_counter of_others;
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_epoch_end = [&](const epoch_record& x) {
        if (x.repeated)
          throw std::runtime_error("the disk is full");
        if (w == 0 && x.epoch == 1) {
          of_others.wait_for(2);
          cut_off(on);
        }
        of_others.count();
      }});
      it.fit(uneven_batches(), how);
    });
  EXPECT_EQ(exception_text(thrown[1]), "the disk is full");
  EXPECT_NE(exception_text(thrown[2]).find("the disk is full"),
            std::string::npos)
    << exception_text(thrown[2]);
}

} // namespace
