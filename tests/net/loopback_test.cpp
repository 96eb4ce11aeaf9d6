#include "troupe/net/channel.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;

namespace {

struct ear {
  explicit ear(channel& at) {
    at.listen({[this](frame&& x) { frames.push_back(std::move(x)); },
               [this](const std::string& why) { lost = why; },
               [this](const std::string& why) { broken = why; }});
  }
  std::vector<frame> frames;
  std::string lost, broken;
};

} // namespace

TEST(Loopback, CarriesFramesBothWaysInOrder) {
  auto wire = make_loopback(8);
  ear left{*wire.left}, right{*wire.right};
  for (std::uint16_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(wire.left->post({frame_kind::message, i, 0, 0, {}}));
    EXPECT_TRUE(wire.right->post({frame_kind::reply, i, 0, 0, {}}));
  }
  ASSERT_EQ(right.frames.size(), 3u);
  EXPECT_EQ(right.frames[2].what, 2);
  EXPECT_EQ(left.frames[1].kind, frame_kind::reply);
}

TEST(Loopback, RefusesMoreThanTheOtherSideTakes) {
  auto wire = make_loopback(2);
  ear right{*wire.right};
  EXPECT_TRUE(wire.left->post({}));
  EXPECT_TRUE(wire.left->post({}));
  EXPECT_FALSE(wire.left->post({}));
  wire.right->consumed();
  EXPECT_TRUE(wire.left->post({}));
  EXPECT_FALSE(wire.left->post({}));
}

TEST(Loopback, TellsTheOtherEndOnceThatItClosed) {
  auto wire = make_loopback(2);
  ear left{*wire.left}, right{*wire.right};
  wire.left->close("drained");
  wire.left->close("again");
  EXPECT_EQ(right.lost, "drained");
  EXPECT_EQ(left.lost, "");
  EXPECT_FALSE(wire.right->post({}));
}

TEST(Loopback, ADroppedEndIsALostOne) {
  auto wire = make_loopback(2);
  ear right{*wire.right};
  wire.left.reset();
  EXPECT_EQ(right.lost, "the other end is gone");
}

TEST(Loopback, ClosesOnBytesThatAreNoFrame) {
  auto wire = make_loopback(2);
  ear right{*wire.right};
  *wire.tamper = [](std::vector<std::byte>& bytes) {
    bytes.back() ^= std::byte{1};
    return true;
  };
  wire.left->post({});
  EXPECT_EQ(right.broken, "a frame whose checksum does not agree");
  EXPECT_TRUE(right.frames.empty());
  EXPECT_FALSE(wire.right->post({}));
}
