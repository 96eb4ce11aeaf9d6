#include "troupe/actors/control/status_survey.hpp"
#include "troupe/actors/protocol/group_options.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

// Tests of the checks, counters and measurements of all replica groups.

namespace troupe {
namespace {

using namespace std::chrono_literals;

std::string refusal(const crew_options& x) {
  try {
    check(x);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

job_status told(const job_pace& pace, job_pace::time_point now) {
  job_status out;
  pace.tell(now, out);
  return out;
}

} // namespace

TEST(ReplicaGroupOptions, AreCheckedAtBothLimits) {
  EXPECT_EQ(refusal({.replicas = 1}), "");
  EXPECT_EQ(refusal({.replicas = most_replicas}), "");
  EXPECT_EQ(refusal({.replicas = 0}),
            "0 replicas for a replica group: give 1 to 4096");
  EXPECT_EQ(refusal({.replicas = most_replicas + 1}),
            "4097 replicas for a replica group: give 1 to 4096");
  EXPECT_EQ(refusal({.threads = 1}), "");
  EXPECT_EQ(refusal({.threads = 0}),
            "0 threads for a replica group: give 1 or more for each replica");
  EXPECT_EQ(refusal({.patience = 1ms}), "");
  EXPECT_EQ(refusal({.patience = 0ms}),
            "a step timeout of 0 ms for a replica group: give 1 ms or more");
}

TEST(GenerationCounter, KeepsTheGenerationOnlyIfARunContinuesTheLast) {
  epoch_count epochs;
  EXPECT_EQ(epochs.of_run(5), 1u);
  epochs.ended(7);
  EXPECT_EQ(epochs.of_run(7), 1u);
  epochs.ended(9);
  EXPECT_EQ(epochs.of_run(8), 2u);
  EXPECT_EQ(epochs.of_run(8), 3u) << "the run before did not complete";
  epochs.ended(8);
  EXPECT_EQ(epochs.of_run(8), 3u);
}

TEST(StepRate, CountsStepsOverTheTimeSinceTheRunBegan) {
  job_pace pace;
  const job_pace::time_point start{};
  EXPECT_EQ(told(pace, start + 5s).window_ms, 0u) << "no run is active";
  pace.begin(start, 100);
  EXPECT_EQ(told(pace, start).steps_per_second, 0);
  for (int i = 1; i <= 8; ++i)
    pace.commit(start + i * 500ms, 100 + 5 * std::uint64_t(i));
  const auto x = told(pace, start + 5s);
  EXPECT_EQ(x.window_ms, 5000u);
  EXPECT_EQ(x.news_ms, 1000u);
  EXPECT_EQ(x.steps_per_second, 8);
}

/// The rate is measured from the last sample that is at least ten seconds old.
TEST(StepRate, ForgetsSamplesOlderThanTenSeconds) {
  job_pace pace;
  const job_pace::time_point start{};
  pace.begin(start, 0);
  for (int i = 1; i <= 20; ++i) // first ten steps a second, then one
    pace.commit(start + i * 1s, std::uint64_t(i < 10 ? 10 * i : 81 + i));
  const auto x = told(pace, start + 20s);
  EXPECT_EQ(x.window_ms, 11'000u);
  EXPECT_EQ(x.news_ms, 0u);
  EXPECT_EQ(x.steps_per_second, 1);
  pace.begin(start + 30s, 7);
  EXPECT_EQ(told(pace, start + 31s).window_ms, 1000u);
}

TEST(StepRate, KeepsAtMostFourSamplesPerSecond) {
  job_pace pace;
  const job_pace::time_point start{};
  pace.begin(start, 0);
  for (int i = 1; i <= 1000; ++i)
    pace.commit(start + i * 10ms, std::uint64_t(i));
  EXPECT_EQ(told(pace, start + 12s).window_ms, 12'000u);
  pace.commit(start + 12s, 1001);
  EXPECT_EQ(told(pace, start + 12s).window_ms, 10'250u);
}

} // namespace troupe
