#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/skeleton.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/tests/actors/remoting/counter.hpp"
#include "troupe/tests/net/security/certificates.hpp"
#include "troupe/tests/support/variable_is.hpp"

#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <gtest/gtest.h>

// Client and node communicate over real sockets, but both are in this process.

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

constexpr auto long_enough = 20s;

struct server_side {
  explicit server_side(const node_server_options& options = {})
    : at{(register_role<counter_actor, int>(in, "counter", counter), in),
         options} {}

  runtime in;
  node_server at;
};

int add(runtime& in, const counter_actor& to, int x) {
  int total = -1;
  {
    caf::scoped_actor self{in.system()};
    self->request(to, long_enough, x)
      .receive(
        [&](int now) { total = now; },
        [&](const caf::error& e) { ADD_FAILURE() << in.system().render(e); });
  }
  forget_logger();
  return total;
}

/// Monitors an actor, calls a function, and waits for the exit reason.
template <class Handle, class F>
caf::error end_of(runtime& in, const Handle& of, F meanwhile) {
  caf::error why;
  {
    caf::scoped_actor self{in.system()};
    self->monitor(of);
    meanwhile();
    self->receive([&](const caf::down_msg& x) { why = x.reason; },
                  caf::after(long_enough) >> [] { ADD_FAILURE(); });
  }
  forget_logger();
  return why;
}

template <class F>
failure failure_of(F fn) {
  try {
    fn();
  } catch (const failure& x) {
    return x;
  }
  ADD_FAILURE() << "no exception was thrown";
  return {ec::invalid, ""};
}

net::credentials knowing(const std::string& secret) {
  return {.secret = secret};
}

} // namespace

TEST(RemoteNode, SpawnsARoleThatRespondsLikeALocalOne) {
  server_side there;
  runtime here;
  remote_node node{here, there.at.address()};
  const auto one = node.spawn<counter_actor>("counter", 41);
  EXPECT_EQ(add(here, one, 1), 42);
  EXPECT_EQ(add(here, one, 1), 43);
  EXPECT_EQ(node.who().running, std::vector<std::string>{"counter"});
}

TEST(RemoteNode, ReportsTheReasonOfARejection) {
  server_side there;
  runtime here;
  remote_node node{here, there.at.address()};
  const auto why = failure_of([&] { node.spawn<counter_actor>("couter", 41); });
  EXPECT_EQ(why.code, ec::refused);
  EXPECT_EQ(why.what(), "node " + there.at.address()
                          + ": spawning \"couter\": this node has no role "
                            "\"couter\"; it has: counter");
  EXPECT_EQ(failure_of([&] { node.spawn<counter_actor>("counter"); }).code,
            ec::invalid);
}

TEST(RemoteNode, RejectsAResponseWithAChannelThatIsOpenAlready) {
  const node_actor::behavior_type lies{
    [](atom::spawn, const spawn_order&) { return desk_channel; },
    [](atom::who) { return node_info{}; }, [](atom::stop) {}};
  runtime there, here;
  const auto liar = there.system().spawn(
    [lies]() -> node_actor::behavior_type { return lies; });
  net::endpoint_options how;
  how.listen = net::address{"127.0.0.1", 0};
  door at{how};
  gateway_actor gate; // the only reference
  const auto served = at.serve(
    {}, "node",
    {[](const net::hello&) { return net::verdict{}; },
     [&](const net::hello&, net::arrived&& x) {
       auto& it = std::get<std::shared_ptr<net::connection>>(x);
       gate = there.system().spawn(gateway<node_actor>, liar,
                                   it->open(desk_channel), gateway_options{});
     }});
  remote_node node{here, to_string(at.endpoint().reachable_at())};
  const auto why = failure_of([&] { node.spawn<counter_actor>("counter", 1); });
  EXPECT_EQ(why.code, ec::protocol) << why.what();
  const std::string said = why.what();
  EXPECT_NE(said.find("spawning \"counter\""), said.npos) << said;
}

TEST(RemoteNode, ReportsThatNoProcessListens) {
  std::string where;
  {
    server_side there;
    where = there.at.address();
  }
  runtime here;
  const auto why = failure_of([&] {
    remote_node{here, where, {.patience = 200ms}};
  });
  EXPECT_EQ(why.code, ec::peer_lost);
  const std::string said = why.what();
  EXPECT_EQ(said.rfind(where, 0), 0u) << said;
  EXPECT_EQ(said.find(where, 1), said.npos)
    << said << ": has the address twice";
  EXPECT_THROW((remote_node{here, "nowhere"}), std::invalid_argument);
}

TEST(RemoteNode, ConnectsOnlyWithTheSecret) {
  server_side there{{.credentials = knowing("open sesame")}};
  runtime here;
  for (const auto& bad : {knowing("open barley"), net::credentials{}})
    failure_of([&] {
      remote_node{
        here, there.at.address(), {.credentials = bad, .patience = 500ms}};
    });
  remote_node node{
    here, there.at.address(), {.credentials = knowing("open sesame")}};
  EXPECT_EQ(add(here, node.spawn<counter_actor>("counter", 1), 1), 2);
}

/// A client with the credentials of the environment connects, and a client
/// without credentials does not.
void expect_served_by_the_environment() {
  server_side there;
  runtime here;
  remote_node node{here, there.at.address()};
  EXPECT_EQ(add(here, node.spawn<counter_actor>("counter", 1), 1), 2);
  failure_of([&] {
    remote_node{here,
                there.at.address(),
                {.credentials = net::credentials{}, .patience = 500ms}};
  });
}

TEST(RemoteNode, AndItsNodeReadTheSecretFromTheEnvironment) {
  const variable_is secret{"TROUPE_SECRET", "open sesame"};
  expect_served_by_the_environment();
}

using RemoteNodeOverTls = net::testing::certificate_test;

TEST_F(RemoteNodeOverTls, ReadsItsFilesFromTheEnvironment) {
  const auto mine = good();
  const variable_is ca{"TROUPE_TLS_CA", mine.authority.c_str()};
  const variable_is own{"TROUPE_TLS_CERTIFICATE", mine.certificate.c_str()};
  EXPECT_THROW((server_side{}), std::invalid_argument) << "the key is missing";
  const variable_is key{"TROUPE_TLS_KEY", mine.key.c_str()};
  expect_served_by_the_environment();
}

TEST(RemoteNode, EndsItsRolesWhenItIsDestroyed) {
  server_side there;
  runtime here;
  remote_node other{here, there.at.address()};
  counter_actor kept;
  {
    remote_node node{here, there.at.address()};
    kept = node.spawn<counter_actor>("counter", 1);
    EXPECT_EQ(other.who().running.size(), 1u);
  }
  EXPECT_EQ(end_of(here, kept, [] {}), ec::peer_lost);
  const auto deadline = std::chrono::steady_clock::now() + long_enough;
  while (!other.who().running.empty()
         && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_TRUE(other.who().running.empty());
}

TEST(RemoteNode, NotifiesMonitorsOfTheReasonARoleEnded) {
  auto there = std::make_unique<server_side>();
  runtime here;
  remote_node node{here, there->at.address()};
  const auto ends = node.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(end_of(here, ends, [&] { caf::anon_send(ends, atom::stop_v); }),
            caf::exit_reason::user_shutdown);
  const auto fails = node.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(end_of(here, fails, [&] { caf::anon_send(fails, atom::next_v); }),
            ec::peer_lost);
  const auto left = node.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(end_of(here, left, [&] { there.reset(); }), ec::peer_lost);
  EXPECT_EQ(failure_of([&] { node.who(); }).code, ec::peer_lost);
}

TEST(RemoteNode, StopsANode) {
  server_side there;
  runtime here;
  remote_node node{here, there.at.address()};
  const auto role = node.spawn<counter_actor>("counter", 1);
  EXPECT_FALSE(there.at.wait_for_stop(0ms));
  // Either the role's end or the connection's arrives first.
  EXPECT_TRUE(end_of(here, role, [&] { node.stop(); }));
  EXPECT_TRUE(there.at.wait_for_stop(long_enough));
}
