#include "troupe/actors/control/status_survey.hpp"
#include "troupe/actors/protocol/group_options.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

// Tests of the checks, counters and measurements that all replica groups share.

namespace troupe {
namespace {

using namespace std::chrono_literals;

std::string refusal(const replica_group_options& x) {
  try {
    check(x);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

job_status status_at(const step_rate& rate, step_rate::time_point now) {
  job_status out;
  rate.write_to(now, out);
  return out;
}

} // namespace

TEST(ReplicaGroupOptions, AreCheckedAtBothLimits) {
  EXPECT_EQ(refusal({.replicas = 1}), "");
  EXPECT_EQ(refusal({.replicas = max_replicas}), "");
  EXPECT_EQ(refusal({.replicas = 0}),
            "0 replicas for a replica group: give 1 to 4096");
  EXPECT_EQ(refusal({.replicas = max_replicas + 1}),
            "4097 replicas for a replica group: give 1 to 4096");
  EXPECT_EQ(refusal({.threads = 1}), "");
  EXPECT_EQ(refusal({.threads = 0}),
            "0 threads for a replica group: give 1 or more for each replica");
  EXPECT_EQ(refusal({.step_timeout = 1ms}), "");
  EXPECT_EQ(refusal({.step_timeout = 0ms}),
            "a step timeout of 0 ms for a replica group: give 1 ms or more");
}

TEST(GenerationCounter, KeepsTheGenerationOnlyIfARunContinuesTheLast) {
  generation_counter counter;
  EXPECT_EQ(counter.begin_run(5), 1u);
  counter.complete_run(7);
  EXPECT_EQ(counter.begin_run(7), 1u);
  counter.complete_run(9);
  EXPECT_EQ(counter.begin_run(8), 2u);
  EXPECT_EQ(counter.begin_run(8), 3u) << "the run before did not complete";
  counter.complete_run(8);
  EXPECT_EQ(counter.begin_run(8), 3u);
}

TEST(StepRate, CountsStepsOverTheTimeSinceTheRunBegan) {
  step_rate rate;
  const step_rate::time_point start{};
  EXPECT_EQ(status_at(rate, start + 5s).window_ms, 0u) << "no run is active";
  rate.begin(start, 100);
  EXPECT_EQ(status_at(rate, start).steps_per_second, 0);
  for (int i = 1; i <= 8; ++i)
    rate.on_commit(start + i * 500ms, 100 + 5 * std::uint64_t(i));
  const auto x = status_at(rate, start + 5s);
  EXPECT_EQ(x.window_ms, 5000u);
  EXPECT_EQ(x.since_commit_ms, 1000u);
  EXPECT_EQ(x.steps_per_second, 8);
}

/// The rate is measured since the newest sample that is more than ten seconds
/// old.
TEST(StepRate, ForgetsSamplesOlderThanTenSeconds) {
  step_rate rate;
  const step_rate::time_point start{};
  rate.begin(start, 0);
  for (int i = 1; i <= 20; ++i) // ten, then one step per second
    rate.on_commit(start + i * 1s, std::uint64_t(i < 10 ? 10 * i : 81 + i));
  const auto x = status_at(rate, start + 20s);
  EXPECT_EQ(x.window_ms, 11'000u);
  EXPECT_EQ(x.since_commit_ms, 0u);
  EXPECT_EQ(x.steps_per_second, 1);
  rate.begin(start + 30s, 7);
  EXPECT_EQ(status_at(rate, start + 31s).window_ms, 1000u);
}

TEST(StepRate, KeepsAtMostFourSamplesPerSecond) {
  step_rate rate;
  const step_rate::time_point start{};
  rate.begin(start, 0);
  for (int i = 1; i <= 1000; ++i)
    rate.on_commit(start + i * 10ms, std::uint64_t(i));
  EXPECT_EQ(status_at(rate, start + 12s).window_ms, 12'000u);
  rate.on_commit(start + 12s, 1001);
  EXPECT_EQ(status_at(rate, start + 12s).window_ms, 10'250u);
}

} // namespace troupe
