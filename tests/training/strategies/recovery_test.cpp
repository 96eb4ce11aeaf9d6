#include "losses.hpp"
#include "troupe/tests/support/scratch.hpp"
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

struct recovery_outcome {
  std::string weights; ///< Empty: the fit threw.
  step_list steps;
  history past;
};

struct lost_worker {
  std::uint32_t worker;
  std::uint64_t step; ///< An epoch has 13 steps, and there are two epochs.
};

/// Trains on a cluster, and cuts off workers in their callbacks of a step.
std::vector<recovery_outcome>
fit_with_losses(std::uint32_t workers, const std::vector<lost_worker>& losses,
                const multi_worker_options& options = {}) {
  std::vector<recovery_outcome> out(workers);
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
recovery_outcome outcome_without_loss(std::uint32_t replicas) {
  const auto on = turns(replicas);
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how{.epochs = 2};
  how.validation = uneven_batches();
  recovery_outcome out;
  out.past = it.fit(uneven_batches(), how);
  out.weights = it.weights_sha256();
  out.steps = steps_to(it.steps());
  return out;
}

void expect_equal(const recovery_outcome& found,
                  const recovery_outcome& expected) {
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
  const auto expected = outcome_without_loss(
    workers * static_cast<std::uint32_t>(options.devices.size()));
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
  std::vector<recovery_outcome> found(3);
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
  const auto expected = outcome_without_loss(3);
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

/// They may make calls of all workers, so they do not repeat it alone.
TEST(CallbackRecoveryCases, AllWorkersRepeatTheCallOfAnEpoch) {
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
  EXPECT_EQ(calls[2], calls[1]);
}

enum class loss_in_callback : std::uint8_t { before_calls, between, after };

/// The chief is lost in the callback of the first epoch, which makes calls of
/// all workers.
/// @returns the results of the calls in callbacks that are not repeated, and
///          the weights, by worker. Empty: the worker is lost.
std::vector<std::vector<std::string>>
fit_with_calls_in_callbacks(std::uint32_t workers, loss_in_callback when,
                            const std::filesystem::path& file) {
  std::vector<std::vector<std::string>> out(workers);
  const auto thrown =
    run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      std::vector<std::string> results;
      const auto lose = [&](const epoch_record& x, loss_in_callback now) {
        if (w == 0 && x.epoch == 1 && now == when)
          cut_off(on);
      };
      fit_options how{.epochs = 3};
      how.validation = uneven_batches();
      how.callbacks.push_back({.on_epoch_end = [&](const epoch_record& x) {
        lose(x, loss_in_callback::before_calls);
        const auto found = it.evaluate(uneven_batches());
        if (!x.repeated)
          results.push_back(std::to_string(found.loss));
        lose(x, loss_in_callback::between);
        it.save(file);
        EXPECT_EQ(model::load(file).weights_sha256(), it.weights_sha256());
        lose(x, loss_in_callback::after);
      }});
      it.fit(uneven_batches(), how);
      results.push_back(it.weights_sha256());
      out[w] = results;
    });
  EXPECT_NE(exception_text(thrown[0]), "");
  for (std::uint32_t w = 1; w < workers; ++w)
    EXPECT_EQ(exception_text(thrown[w]), "");
  return out;
}

class CallsInCallbacks : public scratch_test {};

TEST_F(CallsInCallbacks, AreMadeByAllWorkersIfTheChiefIsLostThere) {
  using enum loss_in_callback;
  for (const std::uint32_t workers : {3, 4}) {
    std::vector<std::string> expected;
    {
      const auto on = turns(workers);
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 3};
      how.callbacks.push_back({.on_epoch_end = [&](const epoch_record&) {
        expected.push_back(std::to_string(it.evaluate(uneven_batches()).loss));
      }});
      it.fit(uneven_batches(), how);
      expected.push_back(it.weights_sha256());
    }
    for (const auto when : {before_calls, between, after}) {
      const auto found =
        fit_with_calls_in_callbacks(workers, when, folder / "model");
      for (std::uint32_t w = 1; w < workers; ++w)
        EXPECT_EQ(found[w], expected)
          << "worker " << w << " of " << workers << ", case " << int(when);
    }
  }
}

/// After the loss of worker 0, worker 2 is process 1 of its view.
TEST(WorkerNames, AreThoseOfTheTasksAfterALoss) {
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how;
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 0 && x.step == 5)
          cut_off(on);
      }});
      it.fit(uneven_batches(), how);
      EXPECT_EQ(on.workers(), 2u);
      std::string said;
      try {
        it.fit(uneven_batches(), {.epochs = w});
      } catch (const std::invalid_argument& e) {
        said = e.what();
      }
      EXPECT_EQ(said, "worker 2 has \"epochs: 2\", but worker 1 has \"epochs: "
                      "1\"; all workers must train the same model on the same "
                      "data with the same options");
      said.clear();
      try {
        it.save("/none/model");
      } catch (const std::runtime_error& e) {
        said = e.what();
      }
      EXPECT_EQ(said.find("(reported by worker 1)") != said.npos, w == 2)
        << said;
      fit_options failing;
      failing.callbacks.push_back({.on_epoch_end = [&](const epoch_record&) {
        if (w == 2)
          throw std::runtime_error("enough");
      }});
      it.fit(uneven_batches(), failing);
    });
  EXPECT_NE(exception_text(thrown[0]), "");
  EXPECT_EQ(exception_text(thrown[1]), "worker 2 ended the fit: enough");
  EXPECT_EQ(exception_text(thrown[2]), "enough");
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
