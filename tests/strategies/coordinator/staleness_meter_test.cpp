#include "troupe/strategies/coordinator/staleness_meter.hpp"

#include <gtest/gtest.h>

namespace troupe::coordinator {

namespace {

TEST(StalenessMeter, CountsTheChangesBetweenTheFirstReadAndTheGradient) {
  staleness_meter of;
  of.on_read({4}, 1, 10);
  of.on_read({4}, 2, 70);
  of.on_read({4}, 1, 12); // a later read
  of.on_read({5}, 1, 12);
  of.on_gradient({4}, 1, 15);
  of.on_gradient({4}, 2, 70);
  of.on_gradient({5}, 1, 16);
  EXPECT_EQ(of.gradients(), 3u);
  EXPECT_EQ(of.sum(), 5u + 0 + 4);
  EXPECT_EQ(of.largest(), 5u);
}

TEST(StalenessMeter, KeepsTheAttemptsOfAClosureApart) {
  staleness_meter of;
  of.on_read({4, 1}, 1, 10);
  of.on_read({4, 2}, 1, 20);
  of.on_gradient({4, 2}, 1, 23);
  EXPECT_EQ(of.sum(), 3u);
}

TEST(StalenessMeter, DoesNotMeasureGradientsWithoutARead) {
  staleness_meter of;
  of.on_read({4}, 1, 10);
  of.on_gradient({4}, 2, 11);
  of.on_gradient({5}, 1, 11);
  EXPECT_EQ(of.gradients(), 0u);
  EXPECT_EQ(of.largest(), 0u);
}

TEST(StalenessMeter, ForgetsTheReadsOfClosuresThatAreOver) {
  staleness_meter of;
  of.on_read({4, 1}, 1, 10);
  of.on_read({4, 2}, 1, 10);
  of.on_read({5}, 1, 10);
  of.forget_if([](std::uint64_t ordinal) { return ordinal < 5; });
  EXPECT_EQ(of.executions(), 1u);
  of.on_gradient({4, 1}, 1, 11);
  EXPECT_EQ(of.gradients(), 0u);
  of.on_gradient({5}, 1, 11);
  EXPECT_EQ(of.gradients(), 1u);
}

TEST(StalenessMeter, KeepsTheReadsOfALimitedNumberOfExecutions) {
  staleness_meter of;
  for (std::uint64_t i = 0; i <= staleness_meter::max_executions; ++i)
    of.on_read({i}, 1, 10);
  EXPECT_EQ(of.executions(), staleness_meter::max_executions);
  of.on_read({0}, 2, 10); // an execution that it has
  of.on_gradient({0}, 2, 12);
  of.on_gradient({staleness_meter::max_executions}, 1, 12);
  EXPECT_EQ(of.gradients(), 1u);
}

} // namespace

} // namespace troupe::coordinator
