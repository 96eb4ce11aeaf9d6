#include "troupe/apps/troupe/launcher/restart_policy.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using clock_type = restart_policy::clock;

const clock_type::time_point start{};

/// Returns the delay of the next start of a process that is killed at `now`.
clock_type::duration delay_after(restart_policy& policy,
                                 clock_type::time_point now) {
  policy.on_killed("worker 1", now);
  const auto due = policy.next();
  if (!due)
    return {};
  EXPECT_EQ(policy.take(*due), "worker 1");
  return *due - now;
}

TEST(RestartPolicy, StartsAProcessAfterADelay) {
  restart_policy policy{1, 7};
  policy.on_killed("worker 2", start);
  ASSERT_TRUE(policy.next());
  EXPECT_EQ(policy.take(*policy.next() - 1ns), std::nullopt);
  EXPECT_EQ(policy.take(*policy.next()), "worker 2");
  EXPECT_EQ(policy.next(), std::nullopt);
}

TEST(RestartPolicy, DoublesTheDelayAndShortensItByUpToAHalf) {
  restart_policy policy{100, 7};
  auto now = start;
  for (std::chrono::milliseconds longest = restart_policy::first_delay;
       longest < 4 * restart_policy::last_delay; longest *= 2) {
    const auto bound = std::min(longest, restart_policy::last_delay);
    const auto delay = delay_after(policy, now);
    EXPECT_LE(delay, bound);
    EXPECT_GE(delay, bound / 2);
    now += 1h;
  }
}

TEST(RestartPolicy, TheDelaysOfTwoSeedsDiffer) {
  restart_policy a{1, 7}, b{1, 8};
  EXPECT_NE(delay_after(a, start), delay_after(b, start));
}

TEST(RestartPolicy, EndsWhenTheRestartsAreUsedUp) {
  restart_policy policy{2, 7};
  EXPECT_GT(delay_after(policy, start), 0s);
  EXPECT_GT(delay_after(policy, start + 1h), 0s);
  EXPECT_EQ(delay_after(policy, start + 2h), 0s);
}

TEST(RestartPolicy, DoesNotCountAProcessThatWasKilledOnPurpose) {
  restart_policy policy{1, 7};
  for (int i = 0; i < 20; ++i) {
    policy.repeat("worker 1", start);
    ASSERT_TRUE(policy.next());
    EXPECT_EQ(policy.take(*policy.next()), "worker 1");
  }
  EXPECT_GT(delay_after(policy, start), 0s);
  policy.cancel();
  policy.repeat("worker 1", start);
  EXPECT_EQ(policy.next(), std::nullopt);
}

TEST(RestartPolicy, GivesUpIfProcessesEndTooOften) {
  restart_policy policy{100, 7};
  for (std::size_t i = 0; i < restart_policy::max_intensity; ++i)
    EXPECT_GT(delay_after(policy, start + i * 1ms), 0s);
  EXPECT_EQ(delay_after(policy, start + 1s), 0s);
  EXPECT_GT(delay_after(policy, start + 11s), 0s);
}

TEST(RestartPolicy, StartsNothingAfterCancel) {
  restart_policy policy{100, 7};
  policy.on_killed("worker 1", start);
  policy.cancel();
  EXPECT_EQ(policy.next(), std::nullopt);
  policy.on_killed("worker 1", start + 1h);
  EXPECT_EQ(policy.take(start + 2h), std::nullopt);
}

TEST(RestartPolicy, SaysWhyItStartsNothing) {
  using enum restart_policy::decision;
  restart_policy often{restart_policy::max_intensity + 1, 7};
  for (std::size_t i = 0; i < restart_policy::max_intensity; ++i)
    EXPECT_EQ(often.on_killed("worker 1", start), restart);
  EXPECT_EQ(often.on_killed("worker 1", start), too_often);
  EXPECT_EQ(often.on_killed("worker 1", start + 1h), restart);
  EXPECT_EQ(often.on_killed("worker 1", start + 2h), used_up);
  often.cancel();
  EXPECT_EQ(often.on_killed("worker 1", start + 3h), cancelled);
}

TEST(RestartPolicy, TakesTheProcessesInTheOrderOfTheirTimes) {
  restart_policy policy{100, 7};
  for (int i = 0; i < 3; ++i)
    policy.on_killed("often", start);
  policy.on_killed("once", start);
  std::vector<std::string> order;
  while (const auto one = policy.take(start + 1h))
    order.push_back(*one);
  EXPECT_EQ(order.size(), 4u);
  EXPECT_EQ(order.back(), "often");
}

/// A process that has failed by itself, with exit code 1.
process_exit failed_end(bool joined, bool had_begun, bool job_had_begun) {
  process_exit out{"worker 1", 1};
  out.joined = joined;
  out.had_begun = had_begun;
  out.job_had_begun = job_had_begun;
  return out;
}

TEST(FailureEffect, StartsAllAgainIfNoneHasBegun) {
  const auto end = failed_end(false, false, false);
  using enum failure_effect;
  EXPECT_EQ(effect_of(end, true, true), all_start_again);
  EXPECT_EQ(effect_of(end, true, false), ends_job);
  EXPECT_EQ(effect_of(end, false, true), ends_job) << "it is its own error";
}

TEST(FailureEffect, IsALossIfTheOthersHaveBegunAfterAnotherWasKilled) {
  const auto end = failed_end(false, false, true);
  using enum failure_effect;
  EXPECT_EQ(effect_of(end, true, true), joins_again);
  EXPECT_EQ(effect_of(end, true, false), none);
  EXPECT_EQ(effect_of(end, false, true), ends_job);
}

TEST(FailureEffect, EndsTheJobIfTheProcessDidNotDependOnTheStart) {
  using enum failure_effect;
  EXPECT_EQ(effect_of(failed_end(true, false, true), true, true), ends_job);
  EXPECT_EQ(effect_of(failed_end(false, true, true), true, true), ends_job);
}

TEST(JobOutlook, LacksAStateOnlyIfAllThatRunWouldCopyIt) {
  constexpr job_process begun{true}, left{true, true}, first{},
    joining{false, false, true};
  const auto of = [](std::vector<job_process> running, bool has_begun = true) {
    return outlook_of(has_begun, running);
  };
  using enum job_outlook;
  EXPECT_EQ(of({joining, joining}), lacks_state);
  EXPECT_EQ(of({joining, left}), lacks_state);
  EXPECT_EQ(of({left, left}), all_left);
  EXPECT_EQ(of({joining, begun}), goes_on);
  EXPECT_EQ(of({joining, first}), goes_on);
  EXPECT_EQ(of({first, first}, false), goes_on);
  EXPECT_EQ(of({}), goes_on);
}

} // namespace
