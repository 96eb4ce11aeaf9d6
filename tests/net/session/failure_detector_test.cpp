#include "troupe/net/session/failure_detector.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using troupe::net::failure_detector;

namespace {

constexpr failure_detector::clock::time_point start{1000s};

} // namespace

TEST(FailureDetector, MeasuresSilenceFromTheLastContact) {
  failure_detector detector{start, 100ms};
  for (auto now = start; now <= start + 900ms; now += 100ms)
    detector.tick(now);
  EXPECT_EQ(detector.silence(start + 950ms), 950ms);
  detector.received(start + 950ms);
  EXPECT_EQ(detector.silence(start + 1s), 50ms);
}

TEST(FailureDetector, ExcludesTimeInWhichThisProcessDidNotRun) {
  failure_detector detector{start, 100ms};
  detector.tick(start + 100ms);
  detector.tick(start + 1000ms); // the tick is 800 ms late
  EXPECT_EQ(detector.silence(start + 1000ms), 200ms);
  detector.tick(start + 1100ms);
  EXPECT_EQ(detector.silence(start + 1200ms), 400ms)
    << "then time counts again";
}

TEST(FailureDetector, CountsOneIntervalPerTickWhenEveryTickIsLate) {
  failure_detector detector{start, 100ms};
  auto now = start;
  for (int i = 0; i < 9; ++i)
    detector.tick(now += 500ms);
  EXPECT_EQ(detector.silence(now), 900ms) << "one interval for each tick";
}

TEST(FailureDetector, IgnoresSmallDelaysAndNeverExcludesMoreThanTheSilence) {
  failure_detector detector{start, 100ms};
  detector.tick(start + 200ms);
  EXPECT_EQ(detector.silence(start + 200ms), 200ms)
    << "late by one interval only";
  detector.received(start + 1000ms);
  detector.tick(start + 1000ms);
  EXPECT_EQ(detector.silence(start + 1000ms), 0ms);
  EXPECT_EQ(detector.silence(start + 1300ms), 300ms);
}
