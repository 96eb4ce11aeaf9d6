#include "troupe/simulation/simulated_network.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

net::parcel_head numbered(unsigned n) {
  net::parcel_head out{};
  out[0] = std::byte(n);
  return out;
}

const std::vector<std::byte> no_bytes;

/// Records the frames that it receives, and when.
struct ear final : net::link_listener {
  ear(const sim& in, net::link& on) : in{in}, on{on} {}
  void heard(net::frame&& x) override {
    on.consumed(x.priority);
    frames.push_back(x);
    times.push_back(in.elapsed());
  }
  void ended(net::ending how, const std::string& why) override {
    end = how;
    text = why;
    times.push_back(in.elapsed());
  }
  const sim& in;
  net::link& on;
  std::vector<net::frame> frames;
  std::vector<caf::timespan> times;
  std::optional<net::ending> end;
  std::string text;
};

struct linked {
  explicit linked(simulated_network& net, const sim& in, std::uint32_t to = 1)
    : a{net.connection(0, to)->open(7)},
      b{net.connection(to, 0)->open(7)},
      at_a{std::make_shared<ear>(in, *a)},
      at_b{std::make_shared<ear>(in, *b)} {
    a->listen(at_a);
    b->listen(at_b);
  }
  std::shared_ptr<net::link> a, b;
  std::shared_ptr<ear> at_a, at_b;
};

net::frame word(std::uint64_t tag, std::size_t bytes = 0) {
  return {.tag = tag, .payload = std::vector<std::byte>(bytes)};
}

void run(sim& in) {
  while (in.next()) {
  }
}

TEST(SimulatedNetwork, DelaysMessagesByTheLatency) {
  sim in{1};
  simulated_network net{in, 2, {.latency = 3ms, .jitter = 0ns}};
  linked over{net, in};
  const auto begin = in.elapsed();
  ASSERT_TRUE(over.a->post(word(1)));
  run(in);
  ASSERT_EQ(over.at_b->frames.size(), 1u);
  EXPECT_EQ(over.at_b->times[0] - begin, 3ms);
}

TEST(SimulatedNetwork, SharesTheBandwidthOfAProcessAmongItsConnections) {
  sim in{1};
  simulated_network net{
    in, 3, {.latency = 0ns, .jitter = 0ns, .bandwidth = 1e6}};
  linked one{net, in, 1}, two{net, in, 2};
  const auto begin = in.elapsed();
  const std::size_t bytes = 1000 - net::header_size; // 1 ms each
  for (auto* x : {&one, &two})
    ASSERT_TRUE(x->a->post(word(1, bytes)));
  run(in);
  EXPECT_EQ(one.at_b->times.at(0) - begin, 1ms);
  EXPECT_EQ(two.at_b->times.at(0) - begin, 2ms);
  EXPECT_GE(net.sent().bytes, 2000u);
}

TEST(SimulatedNetwork, KeepsTheOrderWithinAConnectionOnly) {
  std::size_t overtakings = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim in{seed};
    simulated_network net{in, 2, {.latency = 0ns, .jitter = 10ms}};
    linked over{net, in};
    auto from = net.lanes(0, 1), to = net.lanes(1, 0);
    for (unsigned i = 0; i < 4; ++i) {
      ASSERT_TRUE(over.a->post(word(i + 1)));
      ASSERT_TRUE(from.parts->post(numbered(i), no_bytes));
      ASSERT_TRUE(from.sums->post(numbered(i), no_bytes));
    }
    run(in);
    for (auto* lane : {to.parts.get(), to.sums.get()})
      for (unsigned i = 0; i < 4; ++i) {
        ASSERT_TRUE(lane->front());
        EXPECT_EQ((*lane->front())[0], std::byte(i));
        lane->fetch({});
        lane->pop();
      }
    ASSERT_EQ(over.at_b->frames.size(), 4u);
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(over.at_b->frames[i].tag, i + 1);
    overtakings += net.sent().overtakings;
  }
  EXPECT_GT(overtakings, 20u);
}

TEST(SimulatedNetwork, BoundsALaneAndNotifiesOfFreeSpace) {
  sim in{1};
  simulated_network net{in, 2, {.parcels = 2}};
  auto from = net.lanes(0, 1), to = net.lanes(1, 0);
  int news_of_room = 0, news_of_parcels = 0;
  net.on_news(0, [&] { ++news_of_room; });
  net.on_news(1, [&] { ++news_of_parcels; });
  EXPECT_TRUE(from.parts->post(numbered(1), no_bytes));
  ASSERT_EQ(from.parts->room().size(), net::most_parcel_bytes);
  std::memset(from.parts->room().data(), 5, 10);
  from.parts->post(numbered(2), 10);
  EXPECT_TRUE(from.parts->room().empty());
  EXPECT_FALSE(from.parts->post(numbered(3), no_bytes));
  EXPECT_FALSE(from.sums->room().empty());
  run(in);
  EXPECT_TRUE(from.parts->room().empty()); // no packet was read
  EXPECT_GE(news_of_parcels, 2);
  EXPECT_EQ(news_of_room, 0);
  to.parts->fetch({});
  to.parts->pop();
  run(in);
  EXPECT_EQ(news_of_room, 1);
  EXPECT_FALSE(from.parts->room().empty());
  ASSERT_EQ(to.parts->front_bytes(), 10u);
  std::array<std::byte, 10> got{};
  ASSERT_TRUE(to.parts->fetch(got));
  EXPECT_EQ(got[9], std::byte{5});
}

TEST(SimulatedNetwork, MakesSomeLanesViewableAndSomeNot) {
  std::set<bool> kinds;
  bool partly = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim in{seed};
    simulated_network net{in, 2, {.bandwidth = 1e6}};
    auto from = net.lanes(0, 1), to = net.lanes(1, 0);
    const std::vector<std::byte> bytes(1000, std::byte{3});
    ASSERT_TRUE(from.parts->post(numbered(1), bytes));
    while (!to.parts->front())
      ASSERT_TRUE(in.next());
    const bool viewed = !to.parts->view().empty();
    kinds.insert(viewed);
    std::vector<std::byte> got(1000);
    while (!to.parts->fetch(got)) {
      partly = true;
      ASSERT_FALSE(viewed);
      ASSERT_TRUE(in.next());
    }
    EXPECT_EQ(got, bytes);
  }
  EXPECT_EQ(kinds.size(), 2u);
  EXPECT_TRUE(partly);
}

TEST(SimulatedNetwork, NotifiesBothSidesOfADisconnectAndLosesMessagesInFlight) {
  sim in{1};
  simulated_network net{in, 3, {.latency = 5ms}};
  linked over{net, in}, other{net, in, 2};
  auto from = net.lanes(0, 1), to = net.lanes(1, 0);
  ASSERT_TRUE(over.a->post(word(1)));
  ASSERT_TRUE(other.a->post(word(1)));
  ASSERT_TRUE(from.sums->post(numbered(1), no_bytes));
  net.cut(1, net::ending::dead);
  run(in);
  for (const auto& x : {over.at_a, over.at_b}) {
    EXPECT_TRUE(x->frames.empty());
    EXPECT_EQ(x->end, net::ending::dead);
    EXPECT_EQ(x->text, "the connection was cut");
  }
  EXPECT_EQ(other.at_b->frames.size(), 1u);
  EXPECT_FALSE(other.at_b->end);
  EXPECT_FALSE(over.a->post(word(2)));
  EXPECT_FALSE(to.sums->front());
  for (auto* lane : {from.sums.get(), to.sums.get()})
    EXPECT_EQ(lane->ended().value().how, net::ending::dead);
  EXPECT_TRUE(net.is_cut(1));
  EXPECT_FALSE(net.is_cut(2));
}

TEST(SimulatedNetwork, ReportsAPartitionAfterTheHeartbeatTimeout) {
  sim in{1};
  simulated_network net{in, 2, {.suspect = 700ms}};
  linked over{net, in};
  auto from = net.lanes(0, 1);
  const auto begin = in.elapsed();
  net.cut(1, net::ending::silent);
  ASSERT_TRUE(over.a->post(word(1))); // it is lost
  run(in);
  for (const auto& x : {over.at_a, over.at_b}) {
    EXPECT_TRUE(x->frames.empty());
    EXPECT_EQ(x->end, net::ending::silent);
    EXPECT_EQ(x->text, "nothing was heard of it for 700 ms");
    EXPECT_EQ(x->times.at(0) - begin, 700ms);
  }
  EXPECT_FALSE(from.parts->ended());
}

TEST(SimulatedNetwork, SlowsACloggedProcessInBothDirections) {
  sim in{1};
  simulated_network net{in, 3, {.latency = 1ms, .jitter = 0ns}};
  linked one{net, in, 1}, two{net, in, 2};
  const auto begin = in.elapsed();
  net.slow(2, 50);
  for (auto* x : {&one, &two}) {
    x->a->post(word(1));
    x->b->post(word(1));
  }
  run(in);
  EXPECT_EQ(one.at_a->times.at(0) - begin, 1ms);
  EXPECT_EQ(two.at_a->times.at(0) - begin, 50ms);
  EXPECT_EQ(two.at_b->times.at(0) - begin, 50ms);
}

TEST(SimulatedNetwork, KeepsFramesThatArriveBeforeTheirChannelIsOpened) {
  sim in{1};
  simulated_network net{in, 2, {}};
  const auto a = net.connection(0, 1)->open(3);
  a->post(word(1));
  run(in);
  const auto b = net.connection(1, 0)->open(3);
  const auto at_b = std::make_shared<ear>(in, *b);
  b->listen(at_b);
  ASSERT_EQ(at_b->frames.size(), 1u);
  const auto at_a = std::make_shared<ear>(in, *a);
  a->listen(at_a);
  a->post(word(2));
  a->close("done");
  run(in);
  EXPECT_EQ(at_b->frames.size(), 2u);
  EXPECT_EQ(at_b->text, "done");
  EXPECT_EQ(at_a->end, net::ending::dead);
}

TEST(SimulatedNetwork, RejectsInvalidOptions) {
  sim in{1};
  for (const network& x : {network{.latency = -1ns}, network{.jitter = -1ns},
                           network{.bandwidth = -1}, network{.parcels = 0},
                           network{.suspect = 0ms}})
    EXPECT_THROW((simulated_network{in, 2, x}), std::invalid_argument);
}

} // namespace
} // namespace troupe::simulation
