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

net::packet_header make_header(unsigned n) {
  net::packet_header out{};
  out[0] = std::byte(n);
  return out;
}

const std::vector<std::byte> no_bytes;

/// Records the frames that it receives, and the times of their arrival.
struct recorder final : net::channel_listener {
  recorder(const simulator& sim, net::channel& on) : sim{sim}, channel{on} {}
  void on_frame(net::frame&& x) override {
    channel.consumed(x.priority);
    frames.push_back(x);
    times.push_back(sim.elapsed());
  }
  void on_closed(net::close_reason how, const std::string& why) override {
    end = how;
    text = why;
    times.push_back(sim.elapsed());
  }
  const simulator& sim;
  net::channel& channel;
  std::vector<net::frame> frames;
  std::vector<caf::timespan> times;
  std::optional<net::close_reason> end;
  std::string text;
};

struct connected_channels {
  explicit connected_channels(simulated_network& net, const simulator& sim,
                              std::uint32_t peer = 1)
    : a{net.connection(0, peer)->open(7)},
      b{net.connection(peer, 0)->open(7)},
      at_a{std::make_shared<recorder>(sim, *a)},
      at_b{std::make_shared<recorder>(sim, *b)} {
    a->set_listener(at_a);
    b->set_listener(at_b);
  }
  std::shared_ptr<net::channel> a, b;
  std::shared_ptr<recorder> at_a, at_b;
};

net::frame make_frame(std::uint64_t tag, std::size_t bytes = 0) {
  return {.tag = tag, .payload = std::vector<std::byte>(bytes)};
}

net::hello hello_of(std::uint64_t incarnation) {
  net::hello out;
  out.incarnation = incarnation;
  return out;
}

void run_until_idle(simulator& sim) {
  while (sim.advance_once()) {
  }
}

TEST(SimulatedNetwork, DelaysMessagesByTheLatency) {
  simulator sim{1};
  simulated_network net{
    sim, 2, {.latency = 3ms, .jitter = 0ns, .heartbeat_interval = 0ms}};
  connected_channels channels{net, sim};
  const auto begin = sim.elapsed();
  ASSERT_TRUE(channels.a->post(make_frame(1)));
  run_until_idle(sim);
  ASSERT_EQ(channels.at_b->frames.size(), 1u);
  EXPECT_EQ(channels.at_b->times[0] - begin, 3ms);
}

TEST(SimulatedNetwork, SharesTheBandwidthOfAProcessAmongItsConnections) {
  simulator sim{1};
  simulated_network net{sim,
                        3,
                        {.latency = 0ns,
                         .jitter = 0ns,
                         .bandwidth = 1e6,
                         .heartbeat_interval = 0ms}};
  connected_channels first{net, sim, 1}, second{net, sim, 2};
  const auto begin = sim.elapsed();
  const std::size_t bytes = 1000 - net::header_size; // each frame takes 1 ms
  for (auto* x : {&first, &second})
    ASSERT_TRUE(x->a->post(make_frame(1, bytes)));
  run_until_idle(sim);
  EXPECT_EQ(first.at_b->times.at(0) - begin, 1ms);
  EXPECT_EQ(second.at_b->times.at(0) - begin, 2ms);
  EXPECT_GE(net.sent().bytes, 2000u);
}

TEST(SimulatedNetwork, KeepsTheOrderWithinAConnectionOnly) {
  std::size_t reorderings = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulator sim{seed};
    simulated_network net{
      sim, 2, {.latency = 0ns, .jitter = 10ms, .heartbeat_interval = 0ms}};
    connected_channels channels{net, sim};
    auto sender = net.lanes(0, 1), receiver = net.lanes(1, 0);
    for (unsigned i = 0; i < 4; ++i) {
      ASSERT_TRUE(channels.a->post(make_frame(i + 1)));
      ASSERT_TRUE(sender[0]->post(make_header(i), no_bytes));
      ASSERT_TRUE(sender[1]->post(make_header(i), no_bytes));
    }
    run_until_idle(sim);
    for (auto* lane : {receiver[0].get(), receiver[1].get()})
      for (unsigned i = 0; i < 4; ++i) {
        ASSERT_TRUE(lane->front());
        EXPECT_EQ((*lane->front())[0], std::byte(i));
        lane->fetch({});
        lane->pop();
      }
    ASSERT_EQ(channels.at_b->frames.size(), 4u);
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(channels.at_b->frames[i].tag, i + 1);
    reorderings += net.sent().reorderings;
  }
  EXPECT_GT(reorderings, 20u);
}

TEST(SimulatedNetwork, CarriesPacketsOnEachLaneSeparately) {
  for (const std::size_t count : {1, 2, 3, 5}) {
    simulator sim{count};
    simulated_network net{
      sim, 2, {.lanes = count, .lane_capacity = 1, .heartbeat_interval = 0ms}};
    const auto sender = net.lanes(0, 1), receiver = net.lanes(1, 0);
    ASSERT_EQ(sender.size(), count);
    ASSERT_EQ(receiver.size(), count);
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_TRUE(sender[i]->post(make_header(i), no_bytes));
      EXPECT_FALSE(sender[i]->post(make_header(i), no_bytes)); // it is full
    }
    run_until_idle(sim);
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_TRUE(receiver[i]->front());
      EXPECT_EQ((*receiver[i]->front())[0], std::byte(i));
      EXPECT_EQ(sender[i]->front(), nullptr);
    }
  }
}

TEST(SimulatedNetwork, BoundsALaneAndNotifiesOfFreeSpace) {
  simulator sim{1};
  simulated_network net{
    sim, 2, {.lane_capacity = 2, .heartbeat_interval = 0ms}};
  auto sender = net.lanes(0, 1), receiver = net.lanes(1, 0);
  int space_events = 0, packet_events = 0;
  net.on_lane_event(0, [&] { ++space_events; });
  net.on_lane_event(1, [&] { ++packet_events; });
  EXPECT_TRUE(sender[0]->post(make_header(1), no_bytes));
  ASSERT_EQ(sender[0]->reserve().size(), net::max_packet_bytes);
  std::memset(sender[0]->reserve().data(), 5, 10);
  sender[0]->post(make_header(2), 10);
  EXPECT_TRUE(sender[0]->reserve().empty());
  EXPECT_FALSE(sender[0]->post(make_header(3), no_bytes));
  EXPECT_FALSE(sender[1]->reserve().empty());
  run_until_idle(sim);
  EXPECT_TRUE(sender[0]->reserve().empty()); // no packet was read
  EXPECT_GE(packet_events, 2);
  EXPECT_EQ(space_events, 0);
  receiver[0]->fetch({});
  receiver[0]->pop();
  run_until_idle(sim);
  EXPECT_EQ(space_events, 1);
  EXPECT_FALSE(sender[0]->reserve().empty());
  ASSERT_EQ(receiver[0]->front_bytes(), 10u);
  std::array<std::byte, 10> received{};
  ASSERT_TRUE(receiver[0]->fetch(received));
  EXPECT_EQ(received[9], std::byte{5});
}

TEST(SimulatedNetwork, MakesSomeLanesViewableAndSomeNot) {
  std::set<bool> kinds;
  bool partly = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulator sim{seed};
    simulated_network net{
      sim, 2, {.bandwidth = 1e6, .heartbeat_interval = 0ms}};
    auto from = net.lanes(0, 1), receiver = net.lanes(1, 0);
    const std::vector<std::byte> bytes(1000, std::byte{3});
    ASSERT_TRUE(from[0]->post(make_header(1), bytes));
    while (!receiver[0]->front())
      ASSERT_TRUE(sim.advance_once());
    const bool viewed = !receiver[0]->view().empty();
    kinds.insert(viewed);
    std::vector<std::byte> received(1000);
    while (!receiver[0]->fetch(received)) {
      partly = true;
      ASSERT_FALSE(viewed);
      ASSERT_TRUE(sim.advance_once());
    }
    EXPECT_EQ(received, bytes);
  }
  EXPECT_EQ(kinds.size(), 2u);
  EXPECT_TRUE(partly);
}

TEST(SimulatedNetwork, NotifiesBothSidesOfADisconnectAndLosesMessagesInFlight) {
  simulator sim{1};
  simulated_network net{sim, 3, {.latency = 5ms, .heartbeat_interval = 0ms}};
  connected_channels channels{net, sim}, other_channels{net, sim, 2};
  auto sender = net.lanes(0, 1), receiver = net.lanes(1, 0);
  ASSERT_TRUE(channels.a->post(make_frame(1)));
  ASSERT_TRUE(other_channels.a->post(make_frame(1)));
  ASSERT_TRUE(sender[1]->post(make_header(1), no_bytes));
  net.disconnect(1, net::close_reason::closed);
  run_until_idle(sim);
  for (const auto& x : {channels.at_a, channels.at_b}) {
    EXPECT_TRUE(x->frames.empty());
    EXPECT_EQ(x->end, net::close_reason::closed);
    EXPECT_EQ(x->text, "the connection was cut");
  }
  EXPECT_EQ(other_channels.at_b->frames.size(), 1u);
  EXPECT_FALSE(other_channels.at_b->end);
  EXPECT_FALSE(channels.a->post(make_frame(2)));
  EXPECT_FALSE(receiver[1]->front());
  for (auto* lane : {sender[1].get(), receiver[1].get()})
    EXPECT_EQ(lane->closed().value().cause, net::close_reason::closed);
  EXPECT_TRUE(net.is_disconnected(1));
  EXPECT_FALSE(net.is_disconnected(2));
}

TEST(SimulatedNetwork, ReportsAPartitionAfterTheHeartbeatTimeout) {
  simulator sim{1};
  simulated_network net{
    sim, 2, {.heartbeat_interval = 50ms, .heartbeat_timeout = 700ms}};
  connected_channels channels{net, sim};
  auto sender = net.lanes(0, 1);
  sim.run_until([&] { return sim.elapsed() > 5s; });
  EXPECT_FALSE(channels.at_a->end || channels.at_b->end)
    << "heartbeats arrive while nothing else does";
  const auto begin = sim.elapsed();
  net.disconnect(1, net::close_reason::timed_out);
  ASSERT_TRUE(channels.a->post(make_frame(1))); // the frame is lost
  ASSERT_TRUE(
    sim.run_until([&] { return channels.at_a->end && channels.at_b->end; }));
  for (const auto& x : {channels.at_a, channels.at_b}) {
    EXPECT_TRUE(x->frames.empty());
    EXPECT_EQ(x->end, net::close_reason::timed_out);
    EXPECT_EQ(x->text, "no data was received from it for 700 ms");
    // the last heartbeat arrived up to 50 ms earlier, and each check is up to
    // 50 ms late
    EXPECT_GE(x->times.at(0) - begin, 650ms);
    EXPECT_LE(x->times.at(0) - begin, 750ms);
  }
  EXPECT_FALSE(sender[0]->closed());
}

TEST(SimulatedNetwork, KeepsASlowProcessConnectedWhileItsHeartbeatsArrive) {
  simulator sim{1};
  simulated_network net{sim, 2, {.latency = 1ms, .jitter = 0ns}};
  connected_channels channels{net, sim};
  net.clog(1, 500); // heartbeats take 500 ms, but arrive every 100 ms
  sim.run_until([&] { return sim.elapsed() > 10s; });
  EXPECT_FALSE(channels.at_a->end || channels.at_b->end);
  net.clog(1, 5000); // the next one takes 5 s
  ASSERT_TRUE(
    sim.run_until([&] { return channels.at_a->end && channels.at_b->end; }));
  EXPECT_EQ(channels.at_a->end, net::close_reason::timed_out);
}

// As the timer of a real process does, which has expired while the process was
// stopped.
TEST(SimulatedNetwork, SendsTheHeartbeatThatIsDueAsSoonAsAProcessGoesOn) {
  simulator sim{1};
  simulated_network net{sim, 2, {.latency = 100us, .jitter = 0ns}};
  connected_channels channels{net, sim};
  const auto run_for = [&](auto time) {
    bool is_over = false;
    net.call_later(time, [&] { is_over = true; });
    sim.run_until([&] { return is_over; });
  };
  for (int i = 0; i < 20; ++i) {
    net.pause(1);
    run_for(850ms);
    net.resume(1);
    run_for(1ms);
  }
  EXPECT_FALSE(channels.at_a->end || channels.at_b->end);
  net.pause(1);
  run_for(1200ms);
  EXPECT_EQ(channels.at_a->end, net::close_reason::timed_out);
}

TEST(SimulatedNetwork, DialsUntilTheOtherProcessListens) {
  simulator sim{1};
  simulated_network net{sim, 2, {}};
  std::optional<net::endpoint::dial_result> late, missing;
  net.dial(1, 0, hello_of(7), 1s,
           [&](auto&& x) { late.emplace(std::move(x)); });
  sim.run_until([&] { return sim.elapsed() > 300ms; });
  std::shared_ptr<net::connection> accepted;
  net.listen(0, hello_of(8), [&](const net::hello& hello, auto&& connection) {
    EXPECT_EQ(hello.incarnation, 7u);
    accepted = std::move(connection);
  });
  ASSERT_TRUE(sim.run_until([&] { return late.has_value(); }));
  ASSERT_TRUE(late->connection);
  EXPECT_EQ(accepted->peer().incarnation, 7u);
  EXPECT_EQ(late->peer.incarnation, 8u);
  const auto begin = sim.elapsed();
  net.dial(0, 1, {}, 1s, [&](auto&& x) { missing.emplace(std::move(x)); });
  ASSERT_TRUE(sim.run_until([&] { return missing.has_value(); }));
  EXPECT_FALSE(missing->connection);
  EXPECT_EQ(missing->cause, net::close_reason::timed_out);
  EXPECT_LE(sim.elapsed() - begin, 1100ms);
}

TEST(SimulatedNetwork, ConnectsAProcessAgainAfterARestart) {
  simulator sim{1};
  simulated_network net{sim, 2, {}};
  std::vector<std::shared_ptr<net::connection>> accepted;
  net.listen(0, {}, [&](const net::hello&, auto&& connection) {
    accepted.push_back(std::move(connection));
  });
  std::optional<net::endpoint::dial_result> first, second;
  net.dial(1, 0, {}, 1s, [&](auto&& x) { first.emplace(std::move(x)); });
  ASSERT_TRUE(sim.run_until([&] { return first.has_value(); }));
  bool ended = false;
  accepted.at(0)->on_closed([&](auto, const auto&) { ended = true; });
  net.disconnect(1, net::close_reason::closed);
  ASSERT_TRUE(sim.run_until([&] { return ended; }));
  net.restart(1);
  net.dial(1, 0, {}, 1s, [&](auto&& x) { second.emplace(std::move(x)); });
  ASSERT_TRUE(sim.run_until([&] { return second.has_value(); }));
  EXPECT_TRUE(second->connection);
  EXPECT_EQ(accepted.size(), 2u);
}

TEST(SimulatedNetwork, SlowsACloggedProcessInBothDirections) {
  simulator sim{1};
  simulated_network net{
    sim, 3, {.latency = 1ms, .jitter = 0ns, .heartbeat_interval = 0ms}};
  connected_channels fast{net, sim, 1}, slow{net, sim, 2};
  const auto begin = sim.elapsed();
  net.clog(2, 50);
  for (auto* x : {&fast, &slow}) {
    x->a->post(make_frame(1));
    x->b->post(make_frame(1));
  }
  run_until_idle(sim);
  EXPECT_EQ(fast.at_a->times.at(0) - begin, 1ms);
  EXPECT_EQ(slow.at_a->times.at(0) - begin, 50ms);
  EXPECT_EQ(slow.at_b->times.at(0) - begin, 50ms);
}

TEST(SimulatedNetwork, KeepsFramesThatArriveBeforeTheirChannelIsOpened) {
  simulator sim{1};
  simulated_network net{sim, 2, {.heartbeat_interval = 0ms}};
  const auto a = net.connection(0, 1)->open(3);
  a->post(make_frame(1));
  run_until_idle(sim);
  const auto b = net.connection(1, 0)->open(3);
  const auto at_b = std::make_shared<recorder>(sim, *b);
  b->set_listener(at_b);
  ASSERT_EQ(at_b->frames.size(), 1u);
  const auto at_a = std::make_shared<recorder>(sim, *a);
  a->set_listener(at_a);
  a->post(make_frame(2));
  a->close("done");
  run_until_idle(sim);
  EXPECT_EQ(at_b->frames.size(), 2u);
  EXPECT_EQ(at_b->text, "done");
  EXPECT_EQ(at_a->end, net::close_reason::closed);
}

TEST(SimulatedNetwork, RejectsInvalidOptions) {
  simulator sim{1};
  for (const network_options& x :
       {network_options{.latency = -1ns}, network_options{.jitter = -1ns},
        network_options{.bandwidth = -1}, network_options{.lane_capacity = 0},
        network_options{.lanes = net::max_lanes + 1},
        network_options{.heartbeat_timeout = 0ms},
        network_options{.heartbeat_interval = -1ms},
        network_options{.heartbeat_interval = 501ms}})
    EXPECT_THROW((simulated_network{sim, 2, x}), std::invalid_argument);
}

} // namespace
} // namespace troupe::simulation
