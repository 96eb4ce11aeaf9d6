#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

/// Returns the bytes that a lane writes to its stream for one packet.
std::vector<std::byte> bytes_sent(std::uint64_t number, std::size_t size) {
  auto [left, right] = connected_streams();
  stream_lane lane{std::move(left)};
  lane.post(numbered_header(number), bytes_of(number, size));
  std::vector<std::byte> bytes(packet_layout::size + size + 1);
  std::size_t filled = 0;
  while (filled + 1 < bytes.size()) {
    const auto moved = right->read_some(std::span{bytes}.subspan(filled));
    filled += moved.bytes;
    if (moved.state != stream::status::ok)
      break;
  }
  bytes.resize(filled);
  return bytes;
}

struct fed_lane {
  fed_lane() {
    auto ends = connected_streams();
    feeder = std::move(ends.first);
    lane = std::make_unique<stream_lane>(std::move(ends.second));
  }
  void feed(std::span<const std::byte> bytes) { feeder->write_some(bytes); }

  std::unique_ptr<stream> feeder;
  std::unique_ptr<stream_lane> lane;
};

} // namespace

TEST(StreamLane, AssemblesPacketsFromAnyPieces) {
  const auto bytes = bytes_sent(1, 30);
  ASSERT_EQ(bytes.size(), packet_layout::size + 30);
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    fed_lane fed;
    const auto all = std::span{bytes};
    std::vector<std::byte> into(30);
    fed.feed(all.first(cut));
    const bool known = fed.lane->front() != nullptr;
    EXPECT_EQ(known, cut >= packet_layout::size);
    if (known) {
      EXPECT_FALSE(fed.lane->fetch(into));
    }
    fed.feed(all.subspan(cut));
    EXPECT_TRUE(wait_for_event(*fed.lane));
    ASSERT_NE(fed.lane->front(), nullptr);
    EXPECT_TRUE(fed.lane->fetch(into));
    EXPECT_EQ(into, bytes_of(1, 30));
    EXPECT_FALSE(fed.lane->closed());
  }
}

TEST(StreamLane, DetectsAnyFlippedBit) {
  const auto good = bytes_sent(1, 30);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    fed_lane fed;
    fed.feed(bytes);
    std::vector<std::byte> into(max_packet_bytes);
    EXPECT_FALSE(fed.lane->front() != nullptr && fed.lane->fetch(into)) << bit;
    ASSERT_TRUE(fed.lane->closed()) << bit;
    EXPECT_EQ(fed.lane->closed()->cause, close_reason::corrupted) << bit;
    EXPECT_EQ(fed.lane->front(), nullptr);
    EXPECT_TRUE(fed.lane->reserve().empty());
  }
}

TEST(StreamLane, EndsOnRandomBytes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 200; ++i) {
    fed_lane fed;
    fed.feed(bytes_of(seed + i, 1000));
    EXPECT_EQ(fed.lane->front(), nullptr);
    ASSERT_TRUE(fed.lane->closed());
    EXPECT_EQ(fed.lane->closed()->cause, close_reason::corrupted);
  }
}

TEST(StreamLane, IsClosedWhenTheStreamEndsWithinAPacket) {
  const auto bytes = bytes_sent(1, 30);
  fed_lane fed;
  fed.feed(std::span{bytes}.first(bytes.size() - 1));
  fed.feeder->close();
  std::vector<std::byte> into(30);
  ASSERT_NE(fed.lane->front(), nullptr);
  EXPECT_FALSE(fed.lane->fetch(into));
  ASSERT_TRUE(fed.lane->closed());
  EXPECT_EQ(fed.lane->closed()->cause, close_reason::closed);
}
