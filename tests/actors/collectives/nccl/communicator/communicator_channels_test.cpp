#include "troupe/actors/collectives/nccl/communicator/communicator_channels.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tests/support/loopback_channel.hpp"

#include <gtest/gtest.h>

#include <map>

namespace {

using namespace troupe;

constexpr std::uint32_t number = 7;
constexpr std::uint64_t view = 3;

/// A connection with one channel.
class one_channel final : public net::connection {
public:
  explicit one_channel(std::shared_ptr<net::channel> end)
    : end_{std::move(end)} {}

  std::shared_ptr<net::channel> open(std::uint32_t channel) override {
    EXPECT_EQ(channel, number);
    return end_;
  }
  const net::hello& peer() const override { return hello_; }
  std::chrono::milliseconds silence() const override { return {}; }
  void on_closed(
    std::function<void(net::close_reason, const std::string&)>) override {}
  void close(const std::string& reason) override { closed = reason; }

  std::string closed; ///< Empty: the connection is open.

private:
  std::shared_ptr<net::channel> end_;
  net::hello hello_;
};

/// Two processes of a view.
struct two_processes {
  two_processes() {
    for (std::uint32_t p = 0; p < 2; ++p) {
      const auto end = net::loopback_channel::side(p);
      connections.push_back(std::make_shared<one_channel>(wire.end_of(end)));
      std::vector<communicator_channels::peer> peers{{"worker 0", nullptr},
                                                     {"worker 1", nullptr}};
      peers[1 - p].connection = connections[p];
      ends.push_back(std::make_unique<communicator_channels>(
        peers, view, number, [this, p] { ++changes[p]; }));
    }
  }

  /// Sends a payload from process 1 to process 0.
  void send(std::vector<std::byte> payload, std::uint64_t view_id = view) {
    wire.end_of(net::loopback_channel::right)
      ->post({net::frame_kind::oneway, net::priority::control, view_id, 1,
              std::move(payload)});
    wire.deliver();
  }

  net::loopback_channel wire{{.control = 8}};
  std::vector<std::shared_ptr<one_channel>> connections;
  std::map<std::uint32_t, int> changes; ///< Calls, by process.
  std::vector<std::unique_ptr<communicator_channels>> ends;
};

communicator_id id_of(int x) {
  communicator_id out;
  out.fill(std::byte(x));
  return out;
}

TEST(CommunicatorChannels, EachProcessGetsTheOffersOfAll) {
  two_processes job;
  const device_offer a{{"GPU-1"}, "2.28.3", {}}, b{{}, {}, "it has none"};
  job.ends[0]->send(a);
  job.wire.deliver();
  EXPECT_FALSE(job.ends[0]->offers());
  EXPECT_FALSE(job.ends[1]->offers());
  job.ends[1]->send(b);
  job.wire.deliver();
  for (std::uint32_t p = 0; p < 2; ++p) {
    const auto offers = job.ends[p]->offers();
    ASSERT_TRUE(offers);
    EXPECT_EQ(offers->at(0).process, "worker 0");
    EXPECT_EQ(offers->at(0).offer, a);
    EXPECT_EQ(offers->at(1).process, "worker 1");
    EXPECT_EQ(offers->at(1).offer, b);
    EXPECT_EQ(job.changes[p], 1);
  }
}

TEST(CommunicatorChannels, IdsArriveByGenerationBeyondTheCredits) {
  two_processes job;
  for (std::uint64_t generation = 1; generation < 50; ++generation) {
    EXPECT_FALSE(job.ends[1]->find(generation));
    job.ends[0]->publish(generation, id_of(int(generation)));
    job.wire.deliver();
    if (generation % 5 == 0) {
      EXPECT_EQ(job.ends[1]->find(generation), id_of(int(generation)));
    }
  }
  EXPECT_FALSE(job.ends[1]->find(44)); // older than one that was found
  EXPECT_EQ(job.ends[1]->find(49), id_of(49));
}

TEST(CommunicatorChannels, AMalformedMessageClosesTheConnection) {
  const auto offer = encode(device_offer{{"GPU-1"}, "2.28.3", {}});
  const auto id = encode(published_id{1, id_of(7)});
  std::vector<std::vector<std::byte>> malformed{
    {},
    std::vector<std::byte>(3),
    net::encode(std::string(500, 'x')),
    encode(device_offer{}),                    // it says nothing
    encode(device_offer{{"GPU-1"}, "2", "x"}), // and this too much
    encode(published_id{0, id_of(7)}),
    id, // only process 0 makes ids
  };
  for (const auto& whole : {offer, id}) {
    for (std::size_t n = 0; n < whole.size(); ++n)
      malformed.emplace_back(whole.begin(), whole.begin() + std::ptrdiff_t(n));
    malformed.push_back(whole);
    malformed.back().push_back({});
    malformed.push_back(whole);
    malformed.back()[0] = std::byte{0}; // another order of bytes
    malformed.push_back(whole);
    malformed.back()[1] = std::byte{2}; // there is no such kind
  }
  for (const auto& payload : malformed) {
    two_processes job;
    job.send(payload);
    EXPECT_NE(job.connections[0]->closed.find("NCCL"), std::string::npos);
    EXPECT_FALSE(job.ends[0]->find(1));
    EXPECT_FALSE(job.ends[0]->offers());
  }
}

/// Otherwise the processes of a view could decide by different offers.
TEST(CommunicatorChannels, ASecondOfferClosesTheConnection) {
  two_processes job;
  const device_offer first{{"GPU-1"}, "2.28.3", {}};
  job.send(encode(first));
  EXPECT_EQ(job.connections[0]->closed, "");
  job.send(encode(device_offer{{}, {}, "none"}));
  EXPECT_NE(job.connections[0]->closed.find("a second offer"),
            std::string::npos);
  job.ends[0]->send(first);
  EXPECT_EQ(job.ends[0]->offers()->at(1).offer, first);
}

/// The number of a channel is used again after many views.
TEST(CommunicatorChannels, DropsTheMessagesOfAnotherView) {
  two_processes job;
  const device_offer own{{"GPU-0"}, "2.28.3", {}},
    other{{"GPU-1"}, "2.28.3", {}};
  job.ends[0]->send(own);
  const std::vector<std::byte> malformed(3);
  for (int i = 0; i < 20; ++i) { // more than the credits
    job.send(encode(own), view + 1);
    job.send(malformed, view - 1);
  }
  EXPECT_EQ(job.connections[0]->closed, "");
  EXPECT_FALSE(job.ends[0]->offers());
  EXPECT_EQ(job.changes[0], 0);
  job.send(encode(other));
  ASSERT_TRUE(job.ends[0]->offers());
  EXPECT_EQ(job.ends[0]->offers()->at(1).offer, other);
}

/// Other ranks of the process that publishes it ask for it too.
TEST(CommunicatorChannels, APublishedIdIsFoundInItsProcess) {
  two_processes job;
  job.ends[0]->publish(3, id_of(3));
  EXPECT_EQ(job.ends[0]->find(3), id_of(3));
  EXPECT_FALSE(job.ends[0]->find(4));
}

TEST(CommunicatorMessages, HaveTheseBytes) {
  const auto text_of = [](const std::vector<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()),
                       bytes.size());
  };
  // The first byte is that of all values.
  const auto id = text_of(encode(published_id{0x0102, id_of(9)}));
  EXPECT_EQ(id,
            std::string("\1\1\2\1\0\0\0\0\0\0", 10) + std::string(128, '\t'));
  const auto offer = text_of(encode(device_offer{{"A"}, "B", {}}));
  EXPECT_EQ(offer.substr(0, 2), std::string("\1\0", 2));
  EXPECT_NE(offer.find('A'), offer.npos);
}

/// A process does not keep any number of ids that it does not ask for.
TEST(CommunicatorChannels, KeepsABoundedNumberOfIds) {
  two_processes job;
  for (std::uint64_t generation = 1; generation <= 200; ++generation) {
    job.ends[0]->publish(generation, id_of(int(generation)));
    job.wire.deliver();
  }
  EXPECT_FALSE(job.ends[1]->find(100));
  EXPECT_EQ(job.ends[1]->find(200), id_of(200));
}

} // namespace
