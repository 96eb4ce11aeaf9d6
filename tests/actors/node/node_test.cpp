#include "troupe/actors/core/version.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/actors/remoting/connections.hpp"
#include "troupe/tests/actors/remoting/counter.hpp"

#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <gtest/gtest.h>

#include <deque>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using side = net::loopback::side;

/// A node and its clients in one simulator.
struct node_stage {
  explicit node_stage(node_settings x = {}) {
    register_role<counter_actor, int>(*roles, "counter", counter);
    register_role<counter_actor>(*roles, "made", [](caf::actor_system& sys) {
      return counter_actor{sys.spawn(counter, 7)};
    });
    register_role<counter_actor>(*roles, "moody",
                                 [](caf::actor_system&) -> counter_actor {
                                   throw std::runtime_error("not today");
                                 });
    x.name = "here";
    x.incarnation = 5;
    x.roles = roles;
    it = on.spawn(node, x);
  }

  struct client {
    explicit client(node_stage& at) : at{at} {
      caf::anon_send(at.it, guest_ref{wire.end_of(side::right)});
      desk = at.on.spawn(proxy<node_actor>,
                         wire.end_of(side::left)->open(desk_channel),
                         proxy_options{});
    }

    /// @returns the channel of the role, or the text of the error.
    std::variant<std::uint32_t, std::string> order(const spawn_order& x) {
      std::variant<std::uint32_t, std::string> found;
      auto asked = at.self->request(desk, 3600s, atom::spawn_v, x);
      at.settle();
      asked.receive([&](std::uint32_t channel) { found = channel; },
                    [&](const caf::error& e) { found = at.on.sys.render(e); });
      return found;
    }

    template <class Handle, class... Args>
    Handle spawn(const std::string& role, const Args&... args) {
      const auto channel = order(order_of<Handle>(role, args...));
      if (const auto* why = std::get_if<std::string>(&channel)) {
        ADD_FAILURE() << *why;
        return {};
      }
      return at.on.spawn(
        proxy<Handle>,
        wire.end_of(side::left)->open(std::get<std::uint32_t>(channel)),
        proxy_options{});
    }

    node_stage& at;
    connected_pair wire;
    node_actor desk;
  };

  client& connect() { return clients.emplace_back(*this); }

  void settle() {
    bool moved = true;
    while (moved) {
      on.settle();
      moved = false;
      for (auto& one : clients)
        moved |= one.wire.deliver() > 0;
      moved |= on.step();
    }
  }

  int add(const counter_actor& to, int x) {
    int total = -1;
    auto asked = self->request(to, 3600s, x);
    settle();
    asked.receive([&](int now) { total = now; },
                  [&](const caf::error& e) { error = on.sys.render(e); });
    return total;
  }

  node_info info() {
    node_info x;
    auto asked = self->request(node_actor{it}, 3600s, atom::who_v);
    settle();
    asked.receive([&](const node_info& now) { x = now; },
                  [](const caf::error&) { FAIL(); });
    return x;
  }

  /// @returns the exit reason that a monitor receives. None: the actor lives.
  template <class Handle>
  std::optional<std::string> end_of(const Handle& of) {
    self->monitor(of);
    settle();
    std::optional<std::string> why;
    if (self->has_next_message())
      self->receive(
        [&](const caf::down_msg& x) { why = on.sys.render(x.reason); });
    else
      self->demonitor(of.address());
    return why;
  }

  std::shared_ptr<role_registry> roles = std::make_shared<role_registry>();
  simulation::sim on;
  caf::scoped_actor self{on.sys, true};
  node_inside it;
  std::deque<client> clients;
  std::string error;
};

std::string refusal(node_stage::client& by, const spawn_order& x) {
  const auto found = by.order(x);
  const auto* why = std::get_if<std::string>(&found);
  return why ? *why : "spawned";
}

} // namespace

TEST(Node, SpawnsARegisteredRoleThatRespondsLikeALocalOne) {
  node_stage on;
  auto& by = on.connect();
  const auto one = by.spawn<counter_actor>("counter", 41);
  const auto other = by.spawn<counter_actor>("counter", 10);
  EXPECT_EQ(on.add(one, 1), 42);
  EXPECT_EQ(on.add(other, 1), 11);
  EXPECT_EQ(on.add(one, 1), 43);
  EXPECT_EQ(on.add(by.spawn<counter_actor>("made"), 1), 8);
}

TEST(Node, ReportsItsInfo) {
  node_stage on;
  on.connect();
  on.connect().spawn<counter_actor>("counter", 1);
  on.on.advance(3s);
  const auto x = on.info();
  EXPECT_EQ(x.name, "here");
  EXPECT_EQ(x.incarnation, 5u);
  EXPECT_EQ(x.version, version);
  EXPECT_EQ(x.roles, (std::vector<std::string>{"counter", "made", "moody"}));
  EXPECT_EQ(x.running, std::vector<std::string>{"counter"});
  EXPECT_EQ(x.guests, 2u);
  EXPECT_GE(x.uptime_ms, 3000u);
  EXPECT_FALSE(x.devices.empty());
}

TEST(Node, RejectsAnUnregisteredRoleWithTheRegisteredNames) {
  node_stage on;
  auto& by = on.connect();
  EXPECT_EQ(refusal(by, order_of<counter_actor>("couter", 1)),
            "refused(\"this node has no role \\\"couter\\\"; it has: counter, "
            "made, moody\")");
  EXPECT_EQ(refusal(by, order_of<counter_actor>("moody")),
            "refused(\"the role \\\"moody\\\" cannot be made: not today\")");
}

TEST(Node, RejectsARequestOfAnotherProgramVersion) {
  node_stage on;
  auto& by = on.connect();
  EXPECT_EQ(refusal(by, order_of<counter_actor>("counter", 1.5)),
            "invalid(\"the role \\\"counter\\\" is spawned with (i4) here; the "
            "request has other types\")");
  using newer = counter_actor::extend<caf::reacts_to<bool>>;
  EXPECT_EQ(refusal(by, order_of<newer>("counter", 1)),
            "invalid(\"the role \\\"counter\\\" has other messages here; run "
            "the same version of the program on both sides\")");
}

TEST(Node, ChecksTheBoundsOfArguments) {
  node_stage on;
  auto& by = on.connect();
  const auto good = order_of<counter_actor>("counter", 41);
  for (std::size_t size = 0; size < good.arguments.size(); ++size) {
    auto cut = good;
    cut.arguments.resize(size);
    EXPECT_EQ(refusal(by, cut).rfind("protocol(\"malformed arguments: ", 0),
              0u);
  }
  auto longer = good;
  longer.arguments.push_back(0);
  EXPECT_EQ(refusal(by, longer).rfind("protocol(\"malformed arguments: ", 0),
            0u);
  EXPECT_EQ(on.info().running.size(), 0u);
}

TEST(Node, NotifiesMonitorsOfTheReasonARoleEnded) {
  node_stage on;
  auto& by = on.connect();
  const auto fails = by.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(on.end_of(fails), std::nullopt);
  caf::anon_send(fails, atom::next_v);
  EXPECT_EQ(on.end_of(fails),
            "peer_lost(\"the role ended: invalid(\\\"told to\\\")\")");
  const auto leaves = by.spawn<counter_actor>("counter", 1);
  caf::anon_send(leaves, atom::stop_v);
  EXPECT_EQ(on.end_of(leaves),
            on.on.sys.render(caf::make_error(caf::exit_reason::user_shutdown)));
  EXPECT_EQ(on.info().running.size(), 0u);
}

TEST(Node, EndsARoleWhoseHandleIsGone) {
  node_stage on;
  auto& by = on.connect();
  auto handle = by.spawn<counter_actor>("counter", 1);
  caf::anon_send_exit(handle, caf::exit_reason::user_shutdown);
  on.settle();
  EXPECT_EQ(on.info().running.size(), 0u);
  const auto next = by.spawn<counter_actor>("counter", 2);
  EXPECT_EQ(on.add(next, 1), 3) << "the connection stays open";
}

TEST(Node, EndsRolesWhenTheirConnectionCloses) {
  for (const auto how : {net::ending::dead, net::ending::silent}) {
    node_stage on;
    auto& gone = on.connect();
    auto& stays = on.connect();
    const auto lost = gone.spawn<counter_actor>("counter", 1);
    const auto kept = stays.spawn<counter_actor>("counter", 2);
    gone.wire.end(how, "cut");
    EXPECT_EQ(on.end_of(lost), how == net::ending::dead
                                 ? "peer_lost(\"cut\")"
                                 : "unreachable(\"cut\")");
    const auto x = on.info();
    EXPECT_EQ(x.running.size(), 1u);
    EXPECT_EQ(x.guests, 1u);
    EXPECT_EQ(on.add(kept, 1), 3);
  }
}

TEST(Node, KillsARoleThatIgnoresTheRequestToEnd) {
  node_stage on;
  register_role<counter_actor>(*on.roles, "stubborn", stubborn_counter);
  auto& by = on.connect();
  by.spawn<counter_actor>("stubborn");
  by.wire.end(net::ending::dead, "cut");
  on.settle();
  EXPECT_EQ(on.info().running.size(), 1u);
  on.on.advance(6s);
  EXPECT_EQ(on.info().running.size(), 0u);
}

TEST(Node, LimitsRolesAndClients) {
  node_stage on{{.guests = 2, .roles_per_guest = 3}};
  auto& by = on.connect();
  std::vector<counter_actor> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(by.spawn<counter_actor>("counter", i));
  EXPECT_EQ(refusal(by, order_of<counter_actor>("counter", 1)),
            "busy(\"this connection has 3 roles already\")");
  caf::anon_send(all.front(), atom::stop_v);
  on.settle();
  EXPECT_EQ(on.add(by.spawn<counter_actor>("counter", 9), 1), 10);
  auto& second = on.connect();
  EXPECT_EQ(on.add(second.spawn<counter_actor>("counter", 9), 1), 10);
  auto& third = on.connect();
  EXPECT_EQ(on.end_of(third.desk),
            "peer_lost(\"the node serves 2 connections already\")");
}

TEST(Node, EndsAllItsRolesOnAStopMessage) {
  bool stopped = false;
  node_stage on{{.stopped = [&] { stopped = true; }}};
  auto& by = on.connect();
  const auto role = by.spawn<counter_actor>("counter", 1);
  caf::anon_send(by.desk, atom::stop_v);
  on.settle();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(on.end_of(role), "peer_lost(\"the node ended\")");
  EXPECT_NE(on.end_of(on.it), std::nullopt);
}

TEST(RoleRegistry, RejectsANameThatIsRegistered) {
  role_registry all;
  register_role<counter_actor, int>(all, "counter", counter);
  EXPECT_THROW((register_role<counter_actor, int>(all, "counter", counter)),
               std::logic_error);
  for (const char* bad : {"", "two words", "line\n"})
    EXPECT_THROW((register_role<counter_actor, int>(all, bad, counter)),
                 std::logic_error);
  EXPECT_EQ(all.names(), std::vector<std::string>{"counter"});
  EXPECT_EQ(all.find("count"), nullptr);
}
