#include "clusters.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"

#include <gtest/gtest.h>

#include <future>

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

constexpr auto timeout = 500ms;

const multi_worker_options impatient{.communication = {.timeout = timeout}};

/// Blocks the calling thread. The default is three step timeouts: if the step
/// timeout limits the other worker's wait, the wait surely ends too early.
void pause(std::chrono::milliseconds length = 3 * timeout) {
  std::promise<void> never;
  never.get_future().wait_for(length);
}

TEST(ClusterWaits, SlowSaveMayExceedTheStepTimeout) {
  expect_nothing_thrown(
    run_on_cluster(2, impatient, [](const strategy& on, auto) {
      for (int i = 0; i < 2; ++i)
        run_on_chief(on.state(), [] { pause(); });
      const auto seen = all_gather_text(on.state(), "here");
      EXPECT_EQ(seen, (std::vector<std::string>{"here", "here"}));
    }));
}

TEST(ClusterWaits, SlowCallbackMayExceedTheStepTimeout) {
  for (const std::uint32_t slow : {0, 1})
    expect_nothing_thrown(
      run_on_cluster(2, impatient, [&](const strategy& on, std::uint32_t w) {
        const auto scope = on.scope();
        auto model = small_model();
        fit_options options;
        callback both;
        both.on_epoch_end = [&](const epoch_record&) {
          if (w == slow)
            pause();
        };
        both.on_step = [&](const step_record& x) {
          if (w == slow && x.step == 3)
            pause();
        };
        options.callbacks.push_back(both);
        EXPECT_EQ(model.fit(uneven_batches(), options).end, fit_end::done);
      }));
}

/// Worker 1 blocks in a callback. The epoch has more steps than the chief
/// grants in advance, so worker 0 receives no commits meanwhile. It waits
/// longer than 3 step timeouts + 5 s, the maximum wait if
/// `run_request::join_timeout` is zero. The fit succeeds.
TEST(ClusterWaits, SlowCallbackMayExceedTheCommitTimeout) {
  expect_nothing_thrown(
    run_on_cluster(2, impatient, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto model = small_model();
      fit_options options;
      options.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 1 && x.step == 3)
          pause(3 * timeout + 5s + 700ms);
      }});
      const auto batches = digits_200().batch(4);
      EXPECT_GT(*batches.size(), 2 * multi_process_step_window + 4);
      EXPECT_EQ(model.fit(batches, options).end, fit_end::done);
    }));
}

TEST(ClusterWaits, LateWorkerMayExceedTheStepTimeout) {
  expect_nothing_thrown(
    run_on_cluster(2, impatient, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto model = small_model();
      if (w == 1)
        pause();
      model.fit(uneven_batches());
      if (w == 1)
        pause();
      model.evaluate(uneven_batches());
    }));
}

/// Worker 1 gives up and leaves the job. Worker 0 goes on alone.
TEST(ClusterWaits, CallbackTimeoutBoundsASlowSave) {
  auto options = impatient;
  options.communication.timeout = 100ms;
  options.communication.callback_timeout = 400ms;
  std::promise<void> has_left;
  auto other = has_left.get_future();
  const auto thrown = run_on_cluster(
    2, options,
    [&](const strategy& strategy, std::uint32_t) {
      run_on_chief(strategy.state(), [&] {
        EXPECT_EQ(other.wait_for(60s), std::future_status::ready);
      });
    },
    [&](std::uint32_t w) {
      if (w == 1)
        has_left.set_value();
    });
  const auto said = exception_text(thrown[1]);
  EXPECT_NE(said.find("for 400 ms worker 0 did not join"), said.npos) << said;
  EXPECT_EQ(exception_text(thrown[0]), "");
}

TEST(ClusterWaits, LossOfTheChiefEndsTheWait) {
  const auto thrown =
    run_on_cluster(2, impatient, [](const strategy& on, std::uint32_t w) {
      if (w == 1) // Waits ten minutes if the loss is undetected.
        run_on_chief(on.state(), [] {});
    });
  EXPECT_EQ(exception_text(thrown[0]), "");
  EXPECT_NE(exception_text(thrown[1]).find("worker 0"), std::string::npos)
    << exception_text(thrown[1]);
}

} // namespace
