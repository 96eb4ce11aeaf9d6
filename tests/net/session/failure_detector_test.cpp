#include "troupe/net/session/failure_detector.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using troupe::net::vigil;

namespace {

constexpr vigil::clock::time_point start{1000s};

} // namespace

TEST(FailureDetector, MeasuresSilenceFromTheLastContact) {
  vigil x{start, 100ms};
  for (auto now = start; now <= start + 900ms; now += 100ms)
    x.tick(now);
  EXPECT_EQ(x.silence(start + 950ms), 950ms);
  x.heard(start + 950ms);
  EXPECT_EQ(x.silence(start + 1s), 50ms);
}

TEST(FailureDetector, ExcludesTimeInWhichThisProcessDidNotRun) {
  vigil x{start, 100ms};
  x.tick(start + 100ms);
  x.tick(start + 1000ms); // 800 ms late
  EXPECT_EQ(x.silence(start + 1000ms), 200ms);
  x.tick(start + 1100ms);
  EXPECT_EQ(x.silence(start + 1200ms), 400ms) << "then time counts again";
}

TEST(FailureDetector, CountsOneIntervalPerTickWhenEveryTickIsLate) {
  vigil x{start, 100ms};
  auto now = start;
  for (int i = 0; i < 9; ++i)
    x.tick(now += 500ms);
  EXPECT_EQ(x.silence(now), 900ms) << "one interval for each tick";
}

TEST(FailureDetector, IgnoresSmallDelaysAndNeverExcludesMoreThanTheSilence) {
  vigil x{start, 100ms};
  x.tick(start + 200ms);
  EXPECT_EQ(x.silence(start + 200ms), 200ms) << "late by one interval only";
  x.heard(start + 1000ms);
  x.tick(start + 1000ms);
  EXPECT_EQ(x.silence(start + 1000ms), 0ms);
  EXPECT_EQ(x.silence(start + 1300ms), 300ms);
}
