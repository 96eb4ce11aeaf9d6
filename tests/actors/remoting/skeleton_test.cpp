#include "troupe/actors/collectives/tensor_transport.hpp"
#include "troupe/actors/replica/reducer.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/actors/group/groups.hpp"
#include "troupe/tests/actors/remoting/proxies.hpp"
#include "troupe/tests/net/wire_doc.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using slow_actor = caf::typed_actor<
  // The handler returns when the test allows it.
  caf::reacts_to<atom::next>>;

/// A message that arrived: its type, its bytes and its tensors.
struct arrival {
  std::string type;
  std::vector<std::byte> bytes;
  std::vector<tensor> tensors;
};
using message_log = std::vector<arrival>;

template <class T, class... Tensors>
arrival made_of(const T& x, const Tensors&... tensors) {
  return {std::string{net::type_name<T>()}, net::encode(x), {tensors...}};
}

void expect_same(const message_log& got, const message_log& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].type, wanted[i].type);
    EXPECT_EQ(got[i].bytes, wanted[i].bytes) << got[i].type;
    ASSERT_EQ(got[i].tensors.size(), wanted[i].tensors.size());
    for (std::size_t k = 0; k < got[i].tensors.size(); ++k)
      EXPECT_TRUE(same_bits(got[i].tensors[k], wanted[i].tensors[k]));
  }
}

template <class T, class... Tensors>
auto recorder(message_log* log) {
  return [log](const T& x, const Tensors&... with) {
    log->push_back(made_of(x, with...));
  };
}

reducer_actor::behavior_type recording_reducer(reducer_actor::pointer,
                                               message_log* log) {
  return {recorder<tree::contribution, tensor, tensor>(log),
          recorder<step_commit::probe>(log)};
}

replica_actor::behavior_type recording_replica(replica_actor::pointer,
                                               message_log* log) {
  return {
    recorder<tree::contribution, tensor, tensor>(log),
    recorder<step_commit::probe>(log),
    recorder<step_commit::configure>(log),
    [log](const step_commit::start_steps& x, const step_function_ref& fn) {
      log->push_back(made_of(x));
      log->back().type += fn.name;
    },
    recorder<step_commit::grant>(log),
    recorder<tree::reduced_slice, tensor>(log),
    recorder<tree::gather_contribution, tensor>(log),
    [](const replica_task&) { ADD_FAILURE(); }};
}

replica_owner_actor::behavior_type silent_owner(replica_owner_actor::pointer) {
  return {
    [](const step_commit::configured&) {}, [](const step_commit::step_done&) {},
    [](const step_commit::failed&) {}, [](const step_commit::wait_report&) {}};
}

const tree::slice_key slice_key{1, 2, 3, 4, 5, 0, 1};

/// Sends a message through the proxy and appends it to `sent` in the form in
/// which it must arrive.
template <class Stage, class... Ts>
void send(Stage& fixture, message_log& sent, const Ts&... xs) {
  caf::anon_send(fixture.proxied, xs...);
  fixture.settle();
  sent.push_back(made_of(xs...));
}

/// A skeleton to which the test sends frames directly, without a proxy.
struct hostile_fixture : remote_fixture<reducer_actor> {
  hostile_fixture()
    : remote_fixture{{}, {}, {}, recording_reducer, &received},
      peer_end{channel.end_of(net::loopback_channel::left)} {
    watcher->demonitor(proxied.address());
    watcher->monitor(role_skeleton);
  }

  /// Sends a frame with this payload.
  /// @returns the exit reason of the skeleton. Empty: the skeleton lives.
  caf::error end_after(net::frame_kind kind, std::vector<std::byte> payload) {
    net::frame x{.kind = kind, .tag = 1, .payload = std::move(payload)};
    EXPECT_TRUE(peer_end->post(std::move(x)));
    return proxy_end().value_or(
      caf::error{}); // the watcher monitors the skeleton
  }

  message_log received;
  std::shared_ptr<net::channel> peer_end;
};

std::vector<std::byte> message(std::uint16_t position,
                               std::uint32_t fingerprint,
                               const step_commit::probe& x = {}) {
  net::writer out;
  out(position, fingerprint, std::uint32_t{0}, x);
  return std::move(out).bytes();
}

const auto probe_fingerprint =
  wire::signature<caf::reacts_to<step_commit::probe>>::fingerprint();

} // namespace

TEST(Skeleton, DeliversEverySignatureOfAReducer) {
  message_log received, sent;
  remote_fixture<reducer_actor> fixture{
    {}, {}, {}, recording_reducer, &received};
  const auto data = contribution_of(0, 1, large);
  send(fixture, sent, tree::contribution{slice_key}, data, tensor{});
  send(fixture, sent, tree::contribution{slice_key}, data.range(3, 40),
       contribution_of(1, 1, small));
  send(fixture, sent, step_commit::probe{7, 8});
  expect_same(received, sent);
}

TEST(Skeleton, DeliversEverySerializableSignatureOfAReplica) {
  message_log received, sent;
  remote_fixture<replica_actor> fixture{
    {}, {}, {}, recording_replica, &received};
  const auto data = contribution_of(0, 1, small);
  send(fixture, sent, tree::contribution{slice_key}, data, tensor{});
  send(fixture, sent, step_commit::probe{7, 8});
  send(fixture, sent, step_commit::configure{9, 1, 2});
  send(fixture, sent, step_commit::grant{9, 100});
  send(fixture, sent, tree::reduced_slice{slice_key}, data);
  send(fixture, sent, tree::gather_contribution{slice_key}, data);
  caf::anon_send(fixture.proxied, step_commit::start_steps{9, 0, 1},
                 step_function_ref{{}, "run 7"});
  fixture.settle();
  sent.push_back(made_of(step_commit::start_steps{9, 0, 1}));
  sent.back().type += "run 7";
  expect_same(received, sent);
  EXPECT_EQ(fixture.ask<>(replica_task{}).error,
            "invalid(\"a troupe::replica_task cannot leave its process\")");
  EXPECT_EQ(received.size(), sent.size());
}

TEST(Skeleton, BoundsTheMailboxOfABusyRoleByTheCredits) {
  constexpr std::size_t credits = 8;
  std::promise<void> begins;
  const std::shared_future<void> begin{begins.get_future()};
  std::atomic<std::size_t> reads = 0;
  runtime host;
  net::loopback_channel channel{{.control = credits}};
  caf::scoped_actor self{host.system()};
  const auto role = host.system().spawn<caf::detached>(
    [begin, &reads](slow_actor::pointer) -> slow_actor::behavior_type {
      return {[begin, &reads](atom::next) {
        begin.wait();
        ++reads;
      }};
    });
  const auto role_skeleton = spawn_skeleton(
    host.system(), role, channel.end_of(net::loopback_channel::right));
  const auto proxied = spawn_proxy<slow_actor>(
    host.system(), channel.end_of(net::loopback_channel::left));
  std::size_t sent = 0;
  const auto send_one = [&] {
    self->request(proxied, 20s, atom::next_v)
      .receive([&] { ++sent; },
               [](const caf::error& e) { EXPECT_EQ(e, ec::busy); });
    channel.deliver();
    std::this_thread::yield();
  };
  for (int tries = 0; tries < 2000; ++tries)
    send_one();
  EXPECT_EQ(sent, credits) << "the role is busy with the first";
  begins.set_value();
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (sent < 10 * credits && std::chrono::steady_clock::now() < deadline) {
    send_one();
    ASSERT_LE(sent, reads + credits);
  }
  EXPECT_EQ(sent, 10 * credits);
  caf::anon_send_exit(role, caf::exit_reason::user_shutdown);
}

TEST(Skeleton, TerminatesWithProtocolOnAnInvalidMessage) {
  const auto good = message(1, probe_fingerprint);
  auto longer = good, shorter = good;
  longer.push_back({});
  shorter.pop_back();
  const std::pair<net::frame_kind, std::vector<std::byte>> cases[] = {
    {net::frame_kind::oneway, {}},
    {net::frame_kind::oneway, message(2, probe_fingerprint)},
    {net::frame_kind::oneway, message(65535, probe_fingerprint)},
    {net::frame_kind::oneway, message(0, probe_fingerprint)},
    {net::frame_kind::oneway, message(1, probe_fingerprint + 1)},
    {net::frame_kind::oneway, longer},
    {net::frame_kind::oneway, shorter},
    {net::frame_kind::request, good},
    {net::frame_kind::response, good}};
  for (const auto& [kind, payload] : cases) {
    hostile_fixture fixture;
    EXPECT_EQ(fixture.end_after(kind, payload), ec::protocol);
    EXPECT_TRUE(fixture.received.empty());
  }
  hostile_fixture fixture;
  EXPECT_FALSE(fixture.end_after(net::frame_kind::oneway, good));
  EXPECT_EQ(fixture.received.size(), 1u);
}

TEST(Skeleton, EncodesTheExampleOfTheManual) {
  message_log received;
  remote_fixture<reducer_actor> fixture{
    {}, {}, {}, recording_reducer, &received};
  std::string payload;
  fixture.channel.set_fault_hook([&](auto, auto& bytes) {
    payload = net::testing::in_hex(std::span{bytes}.subspan(net::header_size));
    return net::loopback_channel::frame_fault{};
  });
  caf::anon_send(fixture.proxied, step_commit::probe{7, 8});
  fixture.settle();
  EXPECT_EQ(received.size(), 1u);
  EXPECT_EQ(payload, net::testing::examples().back());
}

TEST(Skeleton, FindsDuplicateTagsWithinTheWindow) {
  duplicate_filter filter;
  EXPECT_TRUE(filter.add(5));
  EXPECT_TRUE(filter.add(3));
  EXPECT_FALSE(filter.add(5));
  EXPECT_FALSE(filter.add(3));
  EXPECT_TRUE(filter.add(1027));
  EXPECT_TRUE(filter.add(4));
  EXPECT_FALSE(filter.add(3)) << "older than the window";
  EXPECT_FALSE(filter.add(5));
  EXPECT_TRUE(filter.add(~std::uint64_t{0}));
  EXPECT_FALSE(filter.add(1028));
}

TEST(Skeleton, CarriesATreeReductionWithTheSameBits) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulation::simulator simulator{seed};
    std::deque<net::loopback_channel> channels(
      3); // to the reducer, replica 0 and replica 1
    message_log received[2];
    std::vector<caf::actor> kept_actors;
    const auto receiver_transport = std::make_shared<local_transport>(2, true);
    const auto sender_transport = std::make_shared<local_transport>(2, true);
    const auto connect = [&]<class Role>(std::size_t channel, Role real) {
      kept_actors.push_back(caf::actor_cast<caf::actor>(spawn_skeleton(
        simulator.sys, real,
        channels[channel].end_of(net::loopback_channel::right))));
      simulator.own(kept_actors.back());
      kept_actors.push_back(caf::actor_cast<caf::actor>(spawn_proxy<Role>(
        simulator.sys, channels[channel].end_of(net::loopback_channel::left))));
      simulator.own(kept_actors.back());
      return kept_actors.back();
    };
    for (std::uint32_t r = 0; r < 2; ++r) {
      replica_actor real = simulator.spawn(recording_replica, &received[r]);
      receiver_transport->register_role({role_id::kind::replica, r},
                                        connect(1 + r, real));
    }
    const role_id reducer_id{role_id::kind::reducer, 0};
    replica_owner_actor owner = simulator.spawn(silent_owner);
    reducer_actor real = simulator.spawn(
      reducer, 0u, 2u, message_sender{reducer_id, receiver_transport, nullptr},
      owner);
    sender_transport->register_role(reducer_id, connect(0, real));

    for (std::uint32_t r = 0; r < 2; ++r)
      message_sender{{role_id::kind::replica, r}, sender_transport, nullptr}
        .send_tensor(
          reducer_id,
          {.kind = message_kind::contribution,
           .key = {.generation = 1, .step = 6, .replica = r, .bucket = large},
           .data = contribution_of(r, 6, large),
           .output = {}});
    for (bool moved = true; moved;) {
      simulator.run_until_idle();
      moved = false;
      for (auto& channel : channels)
        moved |= channel.deliver(1 + seed % 2) > 0;
    }
    for (const auto& log : received) {
      ASSERT_EQ(log.size(), 1u);
      EXPECT_TRUE(same_bits(log[0].tensors.at(0),
                            troupe::testing::expected_sum(0, 2, 6, large)));
    }
  }
}
