#include "troupe/strategies/collective/queue_positions.hpp"

#include <gtest/gtest.h>

using namespace troupe::collective;

namespace {

/// Moves all cursors of process 1 of three to operation 5.
queue_positions all_at_five() {
  queue_positions positions{3, 1};
  for (const std::uint32_t peer : {0, 2})
    for (const auto lane : {lane_id::contributions, lane_id::results})
      positions.received(peer, lane) = positions.sent(peer, lane) = {5, 2, 1};
  positions.next_to_add = {5, 0, 0};
  return positions;
}

} // namespace

TEST(QueuePositions, NeedsTheLowestOperationOfAnyCursor) {
  EXPECT_EQ(all_at_five().first_needed(), 5u);
  for (const std::uint32_t peer : {0, 2})
    for (const auto lane : {lane_id::contributions, lane_id::results}) {
      auto positions = all_at_five();
      positions.received(peer, lane) = {4, 0, 0};
      EXPECT_EQ(positions.first_needed(), 4u);
      EXPECT_EQ(positions.first_to_send(), 5u);
      positions.sent(peer, lane) = {3, 0, 0};
      EXPECT_EQ(positions.first_needed(), 3u);
      EXPECT_EQ(positions.first_to_send(), 3u);
    }
  auto positions = all_at_five();
  positions.next_to_add = {2, 0, 0};
  EXPECT_EQ(positions.first_needed(), 2u);
}

TEST(QueuePositions, SendsNothingWithoutPeers) {
  queue_positions alone{1, 0};
  alone.next_to_add = {7, 0, 0};
  EXPECT_EQ(alone.first_needed(), 7u);
  EXPECT_EQ(alone.first_to_send(), ~std::uint64_t{0});
}

TEST(QueuePositions, ResetsEverything) {
  auto positions = all_at_five();
  positions.chunk_arrived(2) = true;
  positions.reset();
  EXPECT_EQ(positions.first_needed(), 0u);
  EXPECT_EQ(positions.next_to_add, cursor{});
  EXPECT_FALSE(positions.chunk_arrived(2));
}
