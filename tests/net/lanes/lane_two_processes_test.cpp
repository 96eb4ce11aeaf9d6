#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

class LaneOfTwoProcesses : public ::testing::TestWithParam<const char*> {};

constexpr std::size_t parcels = 256; // 64 MiB each way

/// Sends all own packets and receives all of the peer's, in any order.
/// @returns the failure; empty: none.
std::string exchange(lane& x, std::uint64_t mine, std::uint64_t theirs) {
  std::vector<pollfd> watched;
  lane* const only[]{&x};
  const auto ours = bytes_of(mine, most_parcel_bytes);
  const auto wanted = bytes_of(theirs, most_parcel_bytes);
  std::vector<std::byte> into(most_parcel_bytes);
  std::size_t sent = 0, taken = 0;
  while (sent < parcels || taken < parcels || !x.flush()) {
    bool moved = sent < parcels && x.post(head_of(sent), ours);
    sent += moved;
    if (x.front() && x.fetch(into)) {
      if (into != wanted || *x.front() != head_of(taken))
        return "packet " + std::to_string(taken) + " differs";
      x.pop();
      ++taken;
      moved = true;
    }
    if (const auto& end = x.ended(); end && taken < parcels && !x.front())
      return end->why;
    if (!moved && !sleep_on(only, patience, watched))
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
    ::_exit(exchange(*lanes.right, 2, 1).empty() ? 0 : 1);
  }
  lanes.right.reset();
  EXPECT_EQ(exchange(*lanes.left, 1, 2), "");
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
    lanes.right->post(head_of(0), bytes_of(0, 10));
    for (;;)
      ::pause();
  }
  lanes.right.reset();
  parcel_head head{};
  EXPECT_TRUE(take_sometime(*lanes.left, head));
  EXPECT_EQ(lanes.left->front(), nullptr);
  ::kill(child, SIGKILL);
  EXPECT_TRUE(wait_for_news(*lanes.left));
  EXPECT_EQ(lanes.left->front(), nullptr);
  ASSERT_TRUE(lanes.left->ended());
  EXPECT_EQ(lanes.left->ended()->how, ending::dead);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}
