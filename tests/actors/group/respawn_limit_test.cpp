#include "troupe/actors/group/respawn_limit.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

TEST(RespawnLimit, CountsEndsWithinTheWindow) {
  respawn_limit limit{3, 60s};
  EXPECT_TRUE(limit.on_end(0s, {{1, 4}}, "a"));
  EXPECT_TRUE(limit.on_end(10s, {{1, 5}}, "b"));
  EXPECT_TRUE(limit.on_end(20s, {{1, 6}}, "c"));
  EXPECT_FALSE(limit.on_end(30s, {{1, 7}}, "d"));
  EXPECT_EQ(limit.describe(), "d; before, within 60 s: a; b; c");
  EXPECT_TRUE(limit.on_end(60s, {{1, 7}}, "e"));
}

// Ends that are further apart than the window are counted, too.
TEST(RespawnLimit, CountsEndsAtOnePositionHoweverLongTheyTake) {
  respawn_limit limit{3, 60s};
  EXPECT_TRUE(limit.on_end(0s, {{1, 4}}, "a"));
  EXPECT_TRUE(limit.on_end(100s, {{1, 4}}, "b"));
  EXPECT_TRUE(limit.on_end(200s, {{1, 4}}, "c"));
  EXPECT_FALSE(limit.on_end(300s, {{1, 4}}, "d"));
  EXPECT_EQ(limit.describe(), "d; before, within 300 s: a; b; c");
  EXPECT_TRUE(limit.on_end(400s, {{1, 5}}, "e")); // a step is progress
}

} // namespace
