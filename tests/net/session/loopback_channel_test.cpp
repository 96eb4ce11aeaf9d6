#include "troupe/tests/net/codec/frames.hpp"
#include "troupe/tests/support/loopback_channel.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

struct ear : link_listener {
  void heard(frame&& x) override { frames.push_back(std::move(x)); }
  void ended(ending how, const std::string& why) override {
    ends.emplace_back(how, why);
  }
  std::vector<frame> frames;
  std::vector<std::pair<ending, std::string>> ends;
};

struct pair_of_ends {
  explicit pair_of_ends(const loopback_options& options = {}) : wire{options} {
    left->listen(at_left);
    right->listen(at_right);
  }
  bool post(std::uint64_t tag, priority how = priority::control) {
    return left->post({.priority = how, .tag = tag, .payload = {{}, {}}});
  }
  std::vector<std::uint64_t> tags() const {
    std::vector<std::uint64_t> found;
    for (const auto& x : at_right->frames)
      found.push_back(x.tag);
    return found;
  }
  loopback wire;
  std::shared_ptr<troupe::net::link> left = wire.end_of(loopback::left);
  std::shared_ptr<troupe::net::link> right = wire.end_of(loopback::right);
  std::shared_ptr<ear> at_left = std::make_shared<ear>();
  std::shared_ptr<ear> at_right = std::make_shared<ear>();
};

using list = std::vector<std::uint64_t>;
using ends = std::vector<std::pair<ending, std::string>>;

} // namespace

TEST(LoopbackChannel, CarriesFramesBothWaysWholeAndInOrder) {
  for (const std::size_t piece : {1, 7, 40, 1500}) {
    pair_of_ends on{{.piece = piece}};
    std::vector<frame> sent;
    for (std::uint32_t i = 0; i < 9; ++i) {
      sent.push_back(some_frame(i * 31, i));
      sent.back().priority = priority::control;
      EXPECT_TRUE(on.left->post(frame{sent.back()}));
      EXPECT_TRUE(on.right->post(frame{sent.back()}));
    }
    EXPECT_TRUE(on.at_right->frames.empty());
    EXPECT_EQ(on.wire.deliver(), 18u);
    EXPECT_EQ(on.at_left->frames, sent);
    EXPECT_EQ(on.at_right->frames, sent);
  }
}

TEST(LoopbackChannel, LetsControlFramesOvertakeBulk) {
  pair_of_ends on;
  on.post(1, priority::bulk);
  on.post(2, priority::bulk);
  on.post(3);
  on.post(4);
  on.wire.deliver();
  EXPECT_EQ(on.tags(), (list{3, 4, 1, 2}));
}

TEST(LoopbackChannel, AcceptsNoFrameBeyondTheCredits) {
  pair_of_ends on{{.control = 2, .bulk = 1}};
  EXPECT_TRUE(on.post(1));
  EXPECT_TRUE(on.post(2));
  EXPECT_FALSE(on.post(3));
  EXPECT_TRUE(on.post(4, priority::bulk)) << "bulk has credits of its own";
  EXPECT_FALSE(on.post(5, priority::bulk));
  on.wire.deliver();
  EXPECT_FALSE(on.post(6)) << "an arrived frame is not consumed yet";
  on.right->consumed(priority::control);
  EXPECT_TRUE(on.post(7));
  EXPECT_FALSE(on.post(8));
}

TEST(LoopbackChannel, EndsOnceAtBothEndsWhenBytesAreCorrupted) {
  pair_of_ends on;
  on.wire.meddle([](auto, auto& bytes) {
    bytes[41] ^= std::byte{8};
    return loopback::fate{};
  });
  on.post(1);
  on.post(2);
  on.wire.deliver();
  const ends wanted{
    {ending::broken, "byte 36: the payload checksum does not match"}};
  EXPECT_EQ(on.at_left->ends, wanted);
  EXPECT_EQ(on.at_right->ends, wanted);
  EXPECT_TRUE(on.at_right->frames.empty());
  EXPECT_FALSE(on.post(3));
  on.wire.end(ending::silent, "too late");
  EXPECT_EQ(on.at_right->ends, wanted);
}

TEST(LoopbackChannel, IsClosedWhenTheStreamEndsWithinAFrame) {
  pair_of_ends on;
  on.wire.meddle([](auto, auto& bytes) {
    bytes.resize(41);
    return loopback::fate{.cut = true};
  });
  on.post(1);
  on.wire.deliver();
  EXPECT_EQ(
    on.at_right->ends,
    (ends{{ending::dead,
           "byte 41: the stream ends 1 bytes before the end of its frame"}}));
}

TEST(LoopbackChannel, DropsDuplicatesAndDelaysFramesByTheFaultHook) {
  pair_of_ends on{{.control = 4}};
  std::vector<loopback::fate> fates{
    {.copies = 0}, {.copies = 2}, {.behind = 2}, {}};
  on.wire.meddle([&, i = 0](auto, auto&) mutable { return fates.at(i++); });
  for (std::uint64_t tag = 1; tag <= 4; ++tag)
    EXPECT_TRUE(on.post(tag));
  on.wire.deliver();
  EXPECT_EQ(on.tags(), (list{2, 2, 4, 3}));
  EXPECT_TRUE(on.post(5)) << "a lost frame returns its credit";
}

TEST(LoopbackChannel, ClosesBothEndsAfterAllPostedFrames) {
  pair_of_ends on;
  on.post(7);
  on.right->close("enough");
  EXPECT_FALSE(on.post(8));
  on.wire.deliver();
  EXPECT_EQ(on.tags(), list{7});
  EXPECT_EQ(on.at_left->ends, (ends{{ending::dead, "enough"}}));
  EXPECT_EQ(on.at_right->ends, (ends{{ending::dead, "enough"}}));
  EXPECT_FALSE(on.post(1));
}
