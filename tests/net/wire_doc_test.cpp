#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/handshake.hpp"
#include "troupe/tests/net/codec/frames.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/net/wire_doc.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

TEST(WireDoc, ShowsAFrame) {
  const frame x{.view_id = 7,
                .tag = 1,
                .payload = {std::byte{'h'}, std::byte{'i'}},
                .channel = 3};
  EXPECT_EQ(in_hex(to_bytes(x)), examples().at(0));
}

TEST(WireDoc, ShowsAProof) {
  nonce ones, twos;
  ones.fill(std::byte{1});
  twos.fill(std::byte{2});
  handshake dialer{handshake::side::dialer, "sesame", ones};
  const handshake other{handshake::side::dialer, "sesame", twos};
  const auto greeting = dialer.unsent().size();
  dialer.receive(other.unsent()); // an acceptor's greeting has the same bytes
  const auto proof = dialer.unsent().subspan(greeting, 32);
  EXPECT_EQ(in_hex(proof), examples().at(1));
}

TEST(WireDoc, ShowsAPacket) {
  const std::array payload{std::byte{'h'}, std::byte{'i'}};
  auto [left, right] = connected_streams();
  stream_lane lane{std::move(left)};
  ASSERT_TRUE(lane.post(packet_header{}, payload));
  std::array<std::byte, 200> sent;
  const auto moved = right->read_some(sent);
  EXPECT_EQ(in_hex(std::span{sent}.first(moved.bytes)), examples().at(2));
}

TEST(WireDoc, ShowsWhereASegmentKeepsItsParts) {
  EXPECT_EQ(offsetof(shm_header, nonce), 0u);
  EXPECT_EQ(offsetof(shm_header, queues), 64u);
  EXPECT_EQ(sizeof(shm_queue), 192u);
  EXPECT_EQ(offsetof(shm_queue, popped), 64u);
  EXPECT_EQ(offsetof(shm_queue, packet_wanted), 128u);
  EXPECT_EQ(offsetof(shm_slot, bytes), 64u);
  EXPECT_EQ(offsetof(shm_slot, payload), 128u);
  EXPECT_EQ(sizeof(shm_slot), 128u + 262'144u + 4096u);
}

TEST(WireDoc, ShowsValues) {
  EXPECT_EQ(in_hex(encode(std::uint32_t{258}, true, std::string{"hi"})),
            examples().at(3));
}
