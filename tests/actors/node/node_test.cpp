#include "troupe/actors/core/version.hpp"
#include "troupe/actors/node/node.hpp"
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

using side = net::loopback_channel::side;

/// A node and its clients, all in one simulator.
struct node_fixture {
  explicit node_fixture(node_settings settings = {}) {
    register_role<counter_actor, int>(*roles, "counter", counter);
    register_role<counter_actor>(*roles, "made", [](caf::actor_system& sys) {
      return counter_actor{sys.spawn(counter, 7)};
    });
    register_role<counter_actor>(*roles, "moody",
                                 [](caf::actor_system&) -> counter_actor {
                                   throw std::runtime_error("not today");
                                 });
    settings.name = "here";
    settings.incarnation = 5;
    settings.roles = roles;
    node_handle = sim.spawn(node, settings);
  }

  struct client {
    explicit client(node_fixture& fixture) : fixture{fixture} {
      caf::anon_send(fixture.node_handle, client_ref{pair.end_of(side::right)});
      node_proxy = spawn_proxy<node_actor>(
        fixture.sim.sys, pair.end_of(side::left)->open(root_channel));
      fixture.sim.own(node_proxy);
    }

    /// Requests a role. Returns its channel, or the text of the error.
    std::variant<std::uint32_t, std::string>
    request_spawn(const spawn_request& x) {
      std::variant<std::uint32_t, std::string> found;
      auto asked = fixture.self->request(node_proxy, 3600s, atom::spawn_v, x);
      fixture.run_until_idle();
      asked.receive(
        [&](std::uint32_t channel) { found = channel; },
        [&](const caf::error& e) { found = fixture.sim.sys.render(e); });
      return found;
    }

    template <class Handle, class... Args>
    Handle spawn(const std::string& role, const Args&... args) {
      const auto channel =
        request_spawn(make_spawn_request<Handle>(role, args...));
      if (const auto* why = std::get_if<std::string>(&channel)) {
        ADD_FAILURE() << *why;
        return {};
      }
      auto handle = spawn_proxy<Handle>(
        fixture.sim.sys,
        pair.end_of(side::left)->open(std::get<std::uint32_t>(channel)));
      fixture.sim.own(handle);
      return handle;
    }

    node_fixture& fixture;
    connected_pair pair;
    node_actor node_proxy;
  };

  client& connect() { return clients.emplace_back(*this); }

  void run_until_idle() {
    bool moved = true;
    while (moved) {
      sim.run_until_idle();
      moved = false;
      for (auto& one : clients)
        moved |= one.pair.deliver() > 0;
      moved |= sim.step();
    }
  }

  int add(const counter_actor& to, int x) {
    int total = -1;
    auto asked = self->request(to, 3600s, x);
    run_until_idle();
    asked.receive([&](int now) { total = now; },
                  [&](const caf::error& e) { error = sim.sys.render(e); });
    return total;
  }

  node_info info() {
    node_info result;
    auto asked = self->request(node_actor{node_handle}, 3600s, atom::info_v);
    run_until_idle();
    asked.receive([&](const node_info& now) { result = now; },
                  [](const caf::error&) { FAIL(); });
    return result;
  }

  /// Returns the exit reason that a monitor receives. Nullopt: the actor lives.
  template <class Handle>
  std::optional<std::string> exit_reason_of(const Handle& actor) {
    self->monitor(actor);
    run_until_idle();
    std::optional<std::string> reason;
    if (self->has_next_message())
      self->receive(
        [&](const caf::down_msg& x) { reason = sim.sys.render(x.reason); });
    else
      self->demonitor(actor.address());
    return reason;
  }

  std::shared_ptr<role_registry> roles = std::make_shared<role_registry>();
  simulation::simulator sim;
  caf::scoped_actor self{sim.sys, true};
  node_internal_actor node_handle;
  std::deque<client> clients;
  std::string error;
};

std::string rejection(node_fixture::client& client, const spawn_request& x) {
  const auto found = client.request_spawn(x);
  const auto* why = std::get_if<std::string>(&found);
  return why ? *why : "spawned";
}

} // namespace

TEST(Node, SpawnsARegisteredRoleThatRespondsLikeALocalOne) {
  node_fixture fixture;
  auto& client = fixture.connect();
  const auto one = client.spawn<counter_actor>("counter", 41);
  const auto other = client.spawn<counter_actor>("counter", 10);
  EXPECT_EQ(fixture.add(one, 1), 42);
  EXPECT_EQ(fixture.add(other, 1), 11);
  EXPECT_EQ(fixture.add(one, 1), 43);
  EXPECT_EQ(fixture.add(client.spawn<counter_actor>("made"), 1), 8);
}

TEST(Node, ReportsItsInfo) {
  node_fixture fixture;
  fixture.connect();
  fixture.connect().spawn<counter_actor>("counter", 1);
  fixture.sim.advance(3s);
  const auto info = fixture.info();
  EXPECT_EQ(info.name, "here");
  EXPECT_EQ(info.incarnation, 5u);
  EXPECT_EQ(info.version, version);
  EXPECT_EQ(info.roles, (std::vector<std::string>{"counter", "made", "moody"}));
  EXPECT_EQ(info.running, std::vector<std::string>{"counter"});
  EXPECT_EQ(info.clients, 2u);
  EXPECT_GE(info.uptime_ms, 3000u);
  EXPECT_FALSE(info.devices.empty());
}

TEST(Node, RejectsAnUnregisteredRoleWithTheRegisteredNames) {
  node_fixture fixture;
  auto& client = fixture.connect();
  EXPECT_EQ(rejection(client, make_spawn_request<counter_actor>("couter", 1)),
            "refused(\"this node has no role \\\"couter\\\"; it has: counter, "
            "made, moody\")");
  EXPECT_EQ(rejection(client, make_spawn_request<counter_actor>("moody")),
            "refused(\"the role \\\"moody\\\" cannot be made: not today\")");
}

TEST(Node, RejectsARequestOfAnotherProgramVersion) {
  node_fixture fixture;
  auto& client = fixture.connect();
  EXPECT_EQ(
    rejection(client, make_spawn_request<counter_actor>("counter", 1.5)),
    "invalid(\"the role \\\"counter\\\" is spawned with (i4) here; the "
    "request has other types\")");
  using newer = counter_actor::extend<caf::reacts_to<bool>>;
  EXPECT_EQ(rejection(client, make_spawn_request<newer>("counter", 1)),
            "invalid(\"the role \\\"counter\\\" has other messages here; run "
            "the same version of the program on both sides\")");
}

TEST(Node, ChecksTheBoundsOfArguments) {
  node_fixture fixture;
  auto& client = fixture.connect();
  const auto good = make_spawn_request<counter_actor>("counter", 41);
  for (std::size_t size = 0; size < good.arguments.size(); ++size) {
    auto cut = good;
    cut.arguments.resize(size);
    EXPECT_EQ(
      rejection(client, cut).rfind("protocol(\"malformed arguments: ", 0), 0u);
  }
  auto longer = good;
  longer.arguments.push_back(0);
  EXPECT_EQ(
    rejection(client, longer).rfind("protocol(\"malformed arguments: ", 0), 0u);
  EXPECT_EQ(fixture.info().running.size(), 0u);
}

TEST(Node, NotifiesMonitorsOfTheReasonARoleEnded) {
  node_fixture fixture;
  auto& client = fixture.connect();
  const auto fails = client.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(fixture.exit_reason_of(fails), std::nullopt);
  caf::anon_send(fails, atom::next_v);
  EXPECT_EQ(fixture.exit_reason_of(fails),
            "peer_lost(\"the role ended: invalid(\\\"told to\\\")\")");
  const auto leaves = client.spawn<counter_actor>("counter", 1);
  caf::anon_send(leaves, atom::stop_v);
  EXPECT_EQ(
    fixture.exit_reason_of(leaves),
    fixture.sim.sys.render(caf::make_error(caf::exit_reason::user_shutdown)));
  EXPECT_EQ(fixture.info().running.size(), 0u);
}

TEST(Node, EndsARoleWhoseHandleIsGone) {
  node_fixture fixture;
  auto& client = fixture.connect();
  auto handle = client.spawn<counter_actor>("counter", 1);
  caf::anon_send_exit(handle, caf::exit_reason::user_shutdown);
  fixture.run_until_idle();
  EXPECT_EQ(fixture.info().running.size(), 0u);
  const auto next = client.spawn<counter_actor>("counter", 2);
  EXPECT_EQ(fixture.add(next, 1), 3) << "the connection stays open";
}

TEST(Node, EndsRolesWhenTheirConnectionCloses) {
  for (const auto reason :
       {net::close_reason::closed, net::close_reason::timed_out}) {
    node_fixture fixture;
    auto& gone = fixture.connect();
    auto& stays = fixture.connect();
    const auto lost = gone.spawn<counter_actor>("counter", 1);
    const auto kept = stays.spawn<counter_actor>("counter", 2);
    gone.pair.end(reason, "cut");
    EXPECT_EQ(fixture.exit_reason_of(lost), reason == net::close_reason::closed
                                              ? "peer_lost(\"cut\")"
                                              : "unreachable(\"cut\")");
    const auto x = fixture.info();
    EXPECT_EQ(x.running.size(), 1u);
    EXPECT_EQ(x.clients, 1u);
    EXPECT_EQ(fixture.add(kept, 1), 3);
  }
}

TEST(Node, KillsARoleThatIgnoresTheRequestToEnd) {
  node_fixture fixture;
  register_role<counter_actor>(*fixture.roles, "stubborn", stubborn_counter);
  auto& by = fixture.connect();
  by.spawn<counter_actor>("stubborn");
  by.pair.end(net::close_reason::closed, "cut");
  fixture.run_until_idle();
  EXPECT_EQ(fixture.info().running.size(), 1u);
  fixture.sim.advance(6s);
  EXPECT_EQ(fixture.info().running.size(), 0u);
}

TEST(Node, LimitsRolesAndClients) {
  node_fixture fixture{{.max_clients = 2, .max_roles_per_client = 3}};
  auto& client = fixture.connect();
  std::vector<counter_actor> roles;
  for (int i = 0; i < 3; ++i)
    roles.push_back(client.spawn<counter_actor>("counter", i));
  EXPECT_EQ(rejection(client, make_spawn_request<counter_actor>("counter", 1)),
            "busy(\"this connection has 3 roles already\")");
  caf::anon_send(roles.front(), atom::stop_v);
  fixture.run_until_idle();
  EXPECT_EQ(fixture.add(client.spawn<counter_actor>("counter", 9), 1), 10);
  auto& second = fixture.connect();
  EXPECT_EQ(fixture.add(second.spawn<counter_actor>("counter", 9), 1), 10);
  auto& third = fixture.connect();
  EXPECT_EQ(fixture.exit_reason_of(third.node_proxy),
            "peer_lost(\"the node serves 2 connections already\")");
}

TEST(Node, EndsAllItsRolesOnAStopMessage) {
  bool stopped = false;
  node_fixture fixture{{.on_stop = [&] { stopped = true; }}};
  auto& by = fixture.connect();
  const auto role = by.spawn<counter_actor>("counter", 1);
  caf::anon_send(by.node_proxy, atom::stop_v);
  fixture.run_until_idle();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(fixture.exit_reason_of(role), "peer_lost(\"the node ended\")");
  EXPECT_NE(fixture.exit_reason_of(fixture.node_handle), std::nullopt);
}

TEST(RoleRegistry, RejectsANameThatIsRegistered) {
  role_registry registry;
  register_role<counter_actor, int>(registry, "counter", counter);
  EXPECT_THROW(
    (register_role<counter_actor, int>(registry, "counter", counter)),
    std::logic_error);
  for (const char* bad : {"", "two words", "line\n"})
    EXPECT_THROW((register_role<counter_actor, int>(registry, bad, counter)),
                 std::logic_error);
  EXPECT_EQ(registry.names(), std::vector<std::string>{"counter"});
  EXPECT_EQ(registry.find("count"), nullptr);
}
