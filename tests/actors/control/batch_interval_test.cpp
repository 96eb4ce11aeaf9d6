#include "troupe/actors/control/batch_interval.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

TEST(BatchInterval, AllowsABatchEachMaximumBatchDelay) {
  batch_interval x;
  const batch_interval::time_point start{1h};
  EXPECT_TRUE(x.may_send(start));
  EXPECT_EQ(x.delay(start), caf::timespan{max_batch_delay});
  x.sent(start);
  EXPECT_FALSE(x.may_send(start));
  EXPECT_EQ(x.delay(start + 5ms), caf::timespan{max_batch_delay - 5ms});
  EXPECT_FALSE(x.may_send(start + max_batch_delay - 1ns));
  EXPECT_TRUE(x.may_send(start + max_batch_delay));
}

} // namespace
