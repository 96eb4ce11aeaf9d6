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
  // Returns when the test allows it.
  caf::reacts_to<atom::next>>;

/// A message that arrived: its type, its bytes and its tensors.
struct arrival {
  std::string type;
  std::vector<std::byte> bytes;
  std::vector<tensor> with;
};
using journal = std::vector<arrival>;

template <class T, class... Tensors>
arrival made_of(const T& x, const Tensors&... with) {
  return {std::string{net::type_name<T>()}, net::encode(x), {with...}};
}

void expect_same(const journal& got, const journal& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].type, wanted[i].type);
    EXPECT_EQ(got[i].bytes, wanted[i].bytes) << got[i].type;
    ASSERT_EQ(got[i].with.size(), wanted[i].with.size());
    for (std::size_t k = 0; k < got[i].with.size(); ++k)
      EXPECT_TRUE(same_bits(got[i].with[k], wanted[i].with[k]));
  }
}

template <class T, class... Tensors>
auto keeper(journal* by) {
  return [by](const T& x, const Tensors&... with) {
    by->push_back(made_of(x, with...));
  };
}

reducer_actor::behavior_type keeping_reducer(reducer_actor::pointer,
                                             journal* by) {
  return {keeper<tree::part, tensor, tensor>(by), keeper<commit::probe>(by)};
}

replica_actor::behavior_type keeping_replica(replica_actor::pointer,
                                             journal* by) {
  return {keeper<tree::part, tensor, tensor>(by),
          keeper<commit::probe>(by),
          keeper<commit::seat>(by),
          [by](const commit::order& x, const step_ref& fn) {
            by->push_back(made_of(x));
            by->back().type += fn.name;
          },
          keeper<commit::grant>(by),
          keeper<tree::sum, tensor>(by),
          keeper<tree::share, tensor>(by),
          [](const visit_ref&) { ADD_FAILURE(); }};
}

owner_actor::behavior_type deaf_owner(owner_actor::pointer) {
  return {[](const commit::seated&) {}, [](const commit::report&) {},
          [](const commit::failed&) {}, [](const commit::blame&) {}};
}

const tree::stamp at{1, 2, 3, 4, 5, 0, 1};

/// Sends a message through the proxy and records it as it must arrive.
template <class Stage, class... Ts>
void send(Stage& on, journal& sent, const Ts&... xs) {
  caf::anon_send(on.proxied, xs...);
  on.settle();
  sent.push_back(made_of(xs...));
}

/// A skeleton whose peer is controlled by the test.
struct hostile_stage : remote_stage<reducer_actor> {
  hostile_stage()
    : remote_stage{{}, {}, {}, keeping_reducer, &heard},
      end{wire.end_of(net::loopback::left)} {
    watcher->demonitor(proxied.address());
    watcher->monitor(gate);
  }

  /// Sends a frame with this payload.
  /// @returns the reason of the skeleton's termination, or none.
  caf::error end_after(net::frame_kind kind, std::vector<std::byte> payload) {
    net::frame x{.kind = kind, .tag = 1, .payload = std::move(payload)};
    EXPECT_TRUE(end->post(std::move(x)));
    return proxy_end().value_or(
      caf::error{}); // the watcher monitors the skeleton
  }

  journal heard;
  std::shared_ptr<net::link> end;
};

std::vector<std::byte> message(std::uint16_t position, std::uint32_t form,
                               const commit::probe& x = {}) {
  net::writer to;
  to(position, form, std::uint32_t{0}, x);
  return std::move(to).bytes();
}

const auto probe_form = wire::signature<caf::reacts_to<commit::probe>>::form();

} // namespace

TEST(Skeleton, DeliversEverySignatureOfAReducer) {
  journal heard, sent;
  remote_stage<reducer_actor> on{{}, {}, {}, keeping_reducer, &heard};
  const auto data = brought(0, 1, large);
  send(on, sent, tree::part{at}, data, tensor{});
  send(on, sent, tree::part{at}, data.range(3, 40), brought(1, 1, small));
  send(on, sent, commit::probe{7, 8});
  expect_same(heard, sent);
}

TEST(Skeleton, DeliversEverySerializableSignatureOfAReplica) {
  journal heard, sent;
  remote_stage<replica_actor> on{{}, {}, {}, keeping_replica, &heard};
  const auto data = brought(0, 1, small);
  send(on, sent, tree::part{at}, data, tensor{});
  send(on, sent, commit::probe{7, 8});
  send(on, sent, commit::seat{9, 1, 2});
  send(on, sent, commit::grant{9, 100});
  send(on, sent, tree::sum{at}, data);
  send(on, sent, tree::share{at}, data);
  caf::anon_send(on.proxied, commit::order{9, 0, 1}, step_ref{{}, "run 7"});
  on.settle();
  sent.push_back(made_of(commit::order{9, 0, 1}));
  sent.back().type += "run 7";
  expect_same(heard, sent);
  EXPECT_EQ(on.ask<>(visit_ref{}).error,
            "invalid(\"a troupe::visit_ref cannot leave its process\")");
  EXPECT_EQ(heard.size(), sent.size());
}

TEST(Skeleton, BoundsTheMailboxOfABusyRoleByTheCredits) {
  constexpr std::size_t credits = 8;
  std::promise<void> begins;
  const std::shared_future<void> begin{begins.get_future()};
  std::atomic<std::size_t> reads = 0;
  runtime here;
  net::loopback wire{{.control = credits}};
  caf::scoped_actor self{here.system()};
  const auto role = here.system().spawn<caf::detached>(
    [begin, &reads](slow_actor::pointer) -> slow_actor::behavior_type {
      return {[begin, &reads](atom::next) {
        begin.wait();
        ++reads;
      }};
    });
  const auto gate =
    here.system().spawn(gateway<slow_actor>, role,
                        wire.end_of(net::loopback::right), gateway_options{});
  const auto proxied = here.system().spawn(
    proxy<slow_actor>, wire.end_of(net::loopback::left), proxy_options{});
  std::size_t sent = 0;
  const auto send_one = [&] {
    self->request(proxied, 20s, atom::next_v)
      .receive([&] { ++sent; },
               [](const caf::error& e) { EXPECT_EQ(e, ec::busy); });
    wire.deliver();
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
  const auto good = message(1, probe_form);
  auto longer = good, shorter = good;
  longer.push_back({});
  shorter.pop_back();
  const std::pair<net::frame_kind, std::vector<std::byte>> cases[] = {
    {net::frame_kind::fact, {}},
    {net::frame_kind::fact, message(2, probe_form)},
    {net::frame_kind::fact, message(65535, probe_form)},
    {net::frame_kind::fact, message(0, probe_form)},
    {net::frame_kind::fact, message(1, probe_form + 1)},
    {net::frame_kind::fact, longer},
    {net::frame_kind::fact, shorter},
    {net::frame_kind::request, good},
    {net::frame_kind::reply, good}};
  for (const auto& [kind, payload] : cases) {
    hostile_stage on;
    EXPECT_EQ(on.end_after(kind, payload), ec::protocol);
    EXPECT_TRUE(on.heard.empty());
  }
  hostile_stage on;
  EXPECT_FALSE(on.end_after(net::frame_kind::fact, good));
  EXPECT_EQ(on.heard.size(), 1u);
}

TEST(Skeleton, EncodesTheExampleOfTheManual) {
  journal heard;
  remote_stage<reducer_actor> on{{}, {}, {}, keeping_reducer, &heard};
  std::string payload;
  on.wire.meddle([&](auto, auto& bytes) {
    payload = net::testing::in_hex(std::span{bytes}.subspan(net::header_size));
    return net::loopback::fate{};
  });
  caf::anon_send(on.proxied, commit::probe{7, 8});
  on.settle();
  EXPECT_EQ(heard.size(), 1u);
  EXPECT_EQ(payload, net::testing::examples().back());
}

TEST(Skeleton, FindsDuplicateTagsWithinTheWindow) {
  seen_tags seen;
  EXPECT_TRUE(seen.add(5));
  EXPECT_TRUE(seen.add(3));
  EXPECT_FALSE(seen.add(5));
  EXPECT_FALSE(seen.add(3));
  EXPECT_TRUE(seen.add(1027));
  EXPECT_TRUE(seen.add(4));
  EXPECT_FALSE(seen.add(3)) << "older than the window";
  EXPECT_FALSE(seen.add(5));
  EXPECT_TRUE(seen.add(~std::uint64_t{0}));
  EXPECT_FALSE(seen.add(1028));
}

TEST(Skeleton, CarriesATreeReductionWithTheSameBits) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    simulation::sim on{seed};
    std::deque<net::loopback> wires(3); // to the reducer, replica 0, replica 1
    journal heard[2];
    std::vector<caf::actor> kept;
    const auto there = std::make_shared<direct_transport>(2, true);
    const auto here = std::make_shared<direct_transport>(2, true);
    const auto connect = [&]<class Role>(std::size_t wire, Role real) {
      kept.push_back(caf::actor_cast<caf::actor>(
        on.spawn(gateway<Role>, real, wires[wire].end_of(net::loopback::right),
                 gateway_options{})));
      Role it = on.spawn(proxy<Role>, wires[wire].end_of(net::loopback::left),
                         proxy_options{});
      kept.push_back(caf::actor_cast<caf::actor>(it));
      return kept.back();
    };
    for (std::uint32_t r = 0; r < 2; ++r) {
      replica_actor real = on.spawn(keeping_replica, &heard[r]);
      there->place({party::role::replica, r}, connect(1 + r, real));
    }
    const party adder{party::role::reducer, 0};
    owner_actor owner = on.spawn(deaf_owner);
    reducer_actor real =
      on.spawn(reducer, 0u, 2u, outbox{adder, there, nullptr}, owner);
    here->place(adder, connect(0, real));

    for (std::uint32_t r = 0; r < 2; ++r)
      outbox{{party::role::replica, r}, here, nullptr}.post(
        adder, {.what = subject::part,
                .at = {.epoch = 1, .step = 6, .replica = r, .bucket = large},
                .data = brought(r, 6, large),
                .room = {}});
    for (bool moved = true; moved;) {
      on.settle();
      moved = false;
      for (auto& x : wires)
        moved |= x.deliver(1 + seed % 2) > 0;
    }
    for (const auto& mine : heard) {
      ASSERT_EQ(mine.size(), 1u);
      EXPECT_TRUE(
        same_bits(mine[0].with.at(0), troupe::testing::tree(0, 2, 6, large)));
    }
  }
}
