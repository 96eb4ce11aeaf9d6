#include "troupe/actors/core/job_error.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/strategies/losses.hpp"
#include "troupe/training/strategies/calls/client_calls.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"

#include <gtest/gtest.h>

#include <future>

// Calls that a client decides on.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;

/// Worker 0 makes no call when worker 2 is lost, and worker 1 waits for it in a
/// call that worker 0 makes later.
TEST(ClientCalls, AProcessWithoutACallTakesPartInAViewChange) {
  std::vector<std::string> gathered;
  const auto run = [&](const strategy& on, std::uint32_t w) {
    const auto& state = on.state();
    begin_client_calls(state);
    all_gather_text(state, "first");
    if (w == 2) {
      cut_off(on);
      throw start_again{}; // and asks to join, in vain
    }
    if (w == 0) {
      std::promise<void> requested;
      std::once_flag once;
      state->group->set_view_change_listener(
        [&] { std::call_once(once, [&] { requested.set_value(); }); });
      // The listener may have been set too late.
      if (!state->group->is_view_change_pending()) {
        EXPECT_EQ(requested.get_future().wait_for(patience),
                  std::future_status::ready);
      }
      const auto calls = state->calls + state->loop_calls;
      enter_pending_view(state);
      EXPECT_EQ(state->calls + state->loop_calls, calls);
      EXPECT_EQ(on.workers(), 2u);
      EXPECT_FALSE(state->must_catch_up);
      enter_pending_view(state); // has no effect
      EXPECT_EQ(state->views, 1u);
      state->group->set_view_change_listener({});
    }
    const auto texts = all_gather_text(state, std::to_string(w));
    if (w == 0)
      gathered = texts;
  };
  int lives = 0;
  const auto thrown =
    run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
      if (w == 2 && lives++ > 0)
        return;
      run(on, w);
    });
  EXPECT_EQ(exception_text(thrown[0]), "");
  EXPECT_EQ(exception_text(thrown[1]), "");
  EXPECT_EQ(gathered, (std::vector<std::string>{"0", "1"}));
}

/// The calls before are not in the log, so the process that joins has not made
/// them.
TEST(ClientCalls, AdmitAProcessThatLacksTheCallsBefore) {
  std::promise<std::uint64_t> joiner;
  const auto incarnation = joiner.get_future().share();
  std::vector<std::uint64_t> calls(workers);
  std::vector<std::vector<std::string>> gathered(workers);
  int lives = 0; // of worker 2
  const auto run = [&](const strategy& on, std::uint32_t w) {
    const auto& state = on.state();
    const bool joins = w == 2 && lives++ > 0;
    begin_client_calls(state);
    if (joins) {
      joiner.set_value(state->group->incarnation());
    } else {
      for (int i = 0; i < 5; ++i)
        all_gather_text(state, "before");
      if (w == 2) {
        cut_off(on);
        throw start_again{};
      }
      all_gather_text(state, "without it");
      EXPECT_EQ(incarnation.wait_for(patience), std::future_status::ready);
    }
    EXPECT_TRUE(admit_process(state, incarnation.get()));
    gathered[w] = all_gather_text(state, std::to_string(w));
    calls[w] = state->calls + state->loop_calls;
  };
  expect_nothing_thrown(run_on_cluster(workers, {}, run));
  EXPECT_EQ(lives, 2);
  for (std::uint32_t w = 0; w < workers; ++w) {
    EXPECT_EQ(gathered[w], (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_EQ(calls[w], calls[0]);
  }
}

} // namespace
