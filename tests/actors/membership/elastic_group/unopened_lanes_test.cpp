#include "troupe/actors/membership/elastic_group/unopened_lanes.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// A view of the members with these tasks. The incarnation of task t is 10 + t,
/// or 20 + t if it was started again.
membership::view view_of(std::uint64_t id,
                         const std::vector<std::uint64_t>& incarnations) {
  membership::view out{id, {}};
  for (const auto x : incarnations)
    out.members.push_back(
      {static_cast<std::uint32_t>(x % 10), x, "host", 1, {}, 1});
  return out;
}

TEST(UnopenedLanes, OfTwoViewsInARowMeanThatTheMemberCannotBeReached) {
  unopened_lanes lanes{view_of(1, {10, 11, 12}), 11, false};
  EXPECT_TRUE(lanes.on_failure(10s, view_of(2, {10, 11}), {0}).empty());
  const auto found = lanes.on_failure(20s, view_of(3, {10, 11}), {0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].task, 0u);
  EXPECT_EQ(found[0].incarnation, 10u);
  EXPECT_FALSE(found[0].is_newer);
  EXPECT_FALSE(found[0].is_older);
}

// A connection that is cut while the lanes are opened is made again.
TEST(UnopenedLanes, OfShortAttemptsNeedMore) {
  unopened_lanes lanes{view_of(1, {10, 11}), 11, false};
  for (std::size_t i = 1; i < unopened_lanes::max_failures; ++i)
    EXPECT_TRUE(
      lanes.on_failure(1ms * i, view_of(1 + i, {10, 11}), {0}).empty());
  EXPECT_EQ(lanes.on_failure(9ms, view_of(9, {10, 11}), {0}).size(), 1u);
}

TEST(UnopenedLanes, AreCountedAnewAfterASuccessOrAnotherMember) {
  unopened_lanes lanes{view_of(1, {10, 11, 12}), 11, false};
  lanes.on_failure(10s, view_of(2, {10, 11, 12}), {0});
  lanes.on_entered(view_of(3, {10, 11, 12}));
  EXPECT_TRUE(lanes.on_failure(30s, view_of(4, {10, 11, 12}), {0}).empty());
  EXPECT_TRUE(lanes.on_failure(40s, view_of(5, {10, 11}), {0}).empty());
  EXPECT_TRUE(lanes.on_failure(50s, view_of(6, {10, 11}), {}).empty());
  EXPECT_TRUE(lanes.on_failure(60s, view_of(7, {10, 11}), {0}).empty());
  EXPECT_EQ(lanes.on_failure(70s, view_of(8, {10, 11}), {0}).size(), 1u);
}

TEST(UnopenedLanes, KnowWhoHasJoinedLater) {
  unopened_lanes old{view_of(1, {10, 11}), 11, false};
  old.on_entered(view_of(2, {11}));
  old.on_failure(10s, view_of(3, {20, 11}), {0});
  const auto by_old = old.on_failure(20s, view_of(4, {20, 11}), {0});
  ASSERT_EQ(by_old.size(), 1u);
  EXPECT_TRUE(by_old[0].is_newer);

  unopened_lanes joined{view_of(2, {11, 12}), 20, true};
  joined.on_failure(10s, view_of(3, {20, 11, 22}), {1, 2});
  const auto by_joined =
    joined.on_failure(20s, view_of(4, {20, 11, 22}), {1, 2});
  ASSERT_EQ(by_joined.size(), 2u);
  EXPECT_TRUE(by_joined[0].is_older);
  EXPECT_TRUE(by_joined[1].is_older); // one process joins at a time
}

} // namespace
