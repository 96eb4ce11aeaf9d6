#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

class LaneOfTwoProcesses : public ::testing::TestWithParam<const char*> {};

constexpr std::size_t packet_count = 256; // 64 MiB per direction

/// Sends `packet_count` packets and receives as many from the peer, at the same
/// time.
/// @returns the reason of a failure. Empty: no failure.
std::string exchange_packets(lane& own_lane, std::uint64_t own_seed,
                             std::uint64_t peer_seed) {
  std::vector<pollfd> watched;
  lane* const only[]{&own_lane};
  const auto ours = bytes_of(own_seed, max_packet_bytes);
  const auto expected = bytes_of(peer_seed, max_packet_bytes);
  std::vector<std::byte> into(max_packet_bytes);
  std::size_t sent = 0, taken = 0;
  while (sent < packet_count || taken < packet_count || !own_lane.flush()) {
    bool moved =
      sent < packet_count && own_lane.post(numbered_header(sent), ours);
    sent += moved;
    if (own_lane.front() && own_lane.fetch(into)) {
      if (into != expected || *own_lane.front() != numbered_header(taken))
        return "packet " + std::to_string(taken) + " differs";
      own_lane.pop();
      ++taken;
      moved = true;
    }
    if (const auto& end = own_lane.closed();
        end && taken < packet_count && !own_lane.front())
      return end->reason;
    if (!moved && !wait_any(only, test_timeout, watched))
      return "no event";
  }
  return {};
}

} // namespace

INSTANTIATE_TEST_SUITE_P(Each, LaneOfTwoProcesses,
                         ::testing::Values("shm", "stream"),
                         [](const auto& x) { return std::string{x.param}; });

TEST_P(LaneOfTwoProcesses, Carries64MiBEachWayAtOnce) {
  auto lanes = make_lanes(GetParam());
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    lanes.left.reset();
    ::_exit(exchange_packets(*lanes.right, 2, 1).empty() ? 0 : 1);
  }
  lanes.right.reset();
  EXPECT_EQ(exchange_packets(*lanes.left, 1, 2), "");
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(LaneOfTwoProcesses, IsClosedWhenThePeerIsKilled) {
  auto lanes = make_lanes(GetParam());
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    lanes.left.reset();
    lanes.right->post(numbered_header(0), bytes_of(0, 10));
    for (;;)
      ::pause();
  }
  lanes.right.reset();
  packet_header header{};
  EXPECT_TRUE(take_eventually(*lanes.left, header));
  EXPECT_EQ(lanes.left->front(), nullptr);
  ::kill(child, SIGKILL);
  EXPECT_TRUE(wait_for_event(*lanes.left));
  EXPECT_EQ(lanes.left->front(), nullptr);
  ASSERT_TRUE(lanes.left->closed());
  EXPECT_EQ(lanes.left->closed()->cause, close_reason::closed);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}
