#include "troupe/tests/net/codec/frames.hpp"
#include "troupe/tests/support/loopback_channel.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

struct recording_listener : channel_listener {
  void on_frame(frame&& x) override { frames.push_back(std::move(x)); }
  void on_closed(close_reason how, const std::string& reason) override {
    closings.emplace_back(how, reason);
  }
  std::vector<frame> frames;
  std::vector<std::pair<close_reason, std::string>> closings;
};

struct channel_ends {
  explicit channel_ends(const loopback_options& options = {}) : wire{options} {
    left->set_listener(left_listener);
    right->set_listener(right_listener);
  }
  bool post(std::uint64_t tag, priority frame_priority = priority::control) {
    return left->post(
      {.priority = frame_priority, .tag = tag, .payload = {{}, {}}});
  }
  std::vector<std::uint64_t> tags() const {
    std::vector<std::uint64_t> found;
    for (const auto& x : right_listener->frames)
      found.push_back(x.tag);
    return found;
  }
  loopback_channel wire;
  std::shared_ptr<troupe::net::channel> left =
    wire.end_of(loopback_channel::left);
  std::shared_ptr<troupe::net::channel> right =
    wire.end_of(loopback_channel::right);
  std::shared_ptr<recording_listener> left_listener =
    std::make_shared<recording_listener>();
  std::shared_ptr<recording_listener> right_listener =
    std::make_shared<recording_listener>();
};

using list = std::vector<std::uint64_t>;
using ends = std::vector<std::pair<close_reason, std::string>>;

} // namespace

TEST(LoopbackChannel, CarriesFramesBothWaysWholeAndInOrder) {
  for (const std::size_t piece : {1, 7, 40, 1500}) {
    channel_ends pair{{.piece = piece}};
    std::vector<frame> sent;
    for (std::uint32_t i = 0; i < 9; ++i) {
      sent.push_back(some_frame(i * 31, i));
      sent.back().priority = priority::control;
      EXPECT_TRUE(pair.left->post(frame{sent.back()}));
      EXPECT_TRUE(pair.right->post(frame{sent.back()}));
    }
    EXPECT_TRUE(pair.right_listener->frames.empty());
    EXPECT_EQ(pair.wire.deliver(), 18u);
    EXPECT_EQ(pair.left_listener->frames, sent);
    EXPECT_EQ(pair.right_listener->frames, sent);
  }
}

TEST(LoopbackChannel, LetsControlFramesOvertakeBulk) {
  channel_ends pair;
  pair.post(1, priority::bulk);
  pair.post(2, priority::bulk);
  pair.post(3);
  pair.post(4);
  pair.wire.deliver();
  EXPECT_EQ(pair.tags(), (list{3, 4, 1, 2}));
}

TEST(LoopbackChannel, AcceptsNoFrameBeyondTheCredits) {
  channel_ends pair{{.control = 2, .bulk = 1}};
  EXPECT_TRUE(pair.post(1));
  EXPECT_TRUE(pair.post(2));
  EXPECT_FALSE(pair.post(3));
  EXPECT_TRUE(pair.post(4, priority::bulk)) << "bulk has credits of its own";
  EXPECT_FALSE(pair.post(5, priority::bulk));
  pair.wire.deliver();
  EXPECT_FALSE(pair.post(6)) << "an arrived frame is not consumed yet";
  pair.right->consumed(priority::control);
  EXPECT_TRUE(pair.post(7));
  EXPECT_FALSE(pair.post(8));
}

TEST(LoopbackChannel, EndsOnceAtBothEndsWhenBytesAreCorrupted) {
  channel_ends pair;
  pair.wire.set_fault_hook([](auto, auto& bytes) {
    bytes[41] ^= std::byte{8};
    return loopback_channel::frame_fault{};
  });
  pair.post(1);
  pair.post(2);
  pair.wire.deliver();
  const ends wanted{{close_reason::protocol_error,
                     "byte 36: the payload checksum does not match"}};
  EXPECT_EQ(pair.left_listener->closings, wanted);
  EXPECT_EQ(pair.right_listener->closings, wanted);
  EXPECT_TRUE(pair.right_listener->frames.empty());
  EXPECT_FALSE(pair.post(3));
  pair.wire.close_with(close_reason::timed_out, "too late");
  EXPECT_EQ(pair.right_listener->closings, wanted);
}

TEST(LoopbackChannel, IsClosedWhenTheStreamEndsWithinAFrame) {
  channel_ends pair;
  pair.wire.set_fault_hook([](auto, auto& bytes) {
    bytes.resize(41);
    return loopback_channel::frame_fault{.cut = true};
  });
  pair.post(1);
  pair.wire.deliver();
  EXPECT_EQ(
    pair.right_listener->closings,
    (ends{{close_reason::closed,
           "byte 41: the stream ends 1 bytes before the end of its frame"}}));
}

TEST(LoopbackChannel, DropsDuplicatesAndDelaysFramesByTheFaultHook) {
  channel_ends pair{{.control = 4}};
  std::vector<loopback_channel::frame_fault> fates{
    {.copies = 0}, {.copies = 2}, {.overtaken_by = 2}, {}};
  pair.wire.set_fault_hook(
    [&, i = 0](auto, auto&) mutable { return fates.at(i++); });
  for (std::uint64_t tag = 1; tag <= 4; ++tag)
    EXPECT_TRUE(pair.post(tag));
  pair.wire.deliver();
  EXPECT_EQ(pair.tags(), (list{2, 2, 4, 3}));
  EXPECT_TRUE(pair.post(5)) << "a lost frame returns its credit";
}

TEST(LoopbackChannel, ClosesBothEndsAfterAllPostedFrames) {
  channel_ends pair;
  pair.post(7);
  pair.right->close("enough");
  EXPECT_FALSE(pair.post(8));
  pair.wire.deliver();
  EXPECT_EQ(pair.tags(), list{7});
  EXPECT_EQ(pair.left_listener->closings,
            (ends{{close_reason::closed, "enough"}}));
  EXPECT_EQ(pair.right_listener->closings,
            (ends{{close_reason::closed, "enough"}}));
  EXPECT_FALSE(pair.post(1));
}
