#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/remoting/skeleton.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/tests/actors/remoting/counter.hpp"
#include "troupe/tests/net/security/certificates.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/support/variable_is.hpp"

#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

// In these tests, a client and a node in one process communicate over real
// sockets.

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;
using troupe::test::becomes_true;

namespace {

using troupe::test::patience;

struct server_side {
  explicit server_side(const node_server_options& options = {})
    : node{
      (register_role<counter_actor, int>(local_runtime, "counter", counter),
       local_runtime),
      options} {}

  runtime local_runtime;
  node_server node;
};

int add(runtime& local_runtime, const counter_actor& to, int x) {
  int total = -1;
  {
    caf::scoped_actor self{local_runtime.system()};
    self->request(to, patience, x)
      .receive([&](int now) { total = now; },
               [&](const caf::error& e) {
                 ADD_FAILURE() << local_runtime.system().render(e);
               });
  }
  release_caf_logger();
  return total;
}

/// Monitors an actor, calls `meanwhile`, and returns the actor's exit reason.
template <class Handle, class F>
caf::error exit_reason_of(runtime& local_runtime, const Handle& actor,
                          F meanwhile) {
  caf::error reason;
  {
    caf::scoped_actor self{local_runtime.system()};
    self->monitor(actor);
    meanwhile();
    self->receive([&](const caf::down_msg& x) { reason = x.reason; },
                  caf::after(patience) >> [] { ADD_FAILURE(); });
  }
  release_caf_logger();
  return reason;
}

template <class F>
job_error failure_of(F fn) {
  try {
    fn();
  } catch (const job_error& x) {
    return x;
  }
  ADD_FAILURE() << "no exception was thrown";
  return {ec::invalid, ""};
}

net::credentials credentials_of(const std::string& secret) {
  return {.secret = secret};
}

} // namespace

TEST(RemoteNode, IsToldItsWrongSecretWhichTheNodeLogsByDefault) {
  std::mutex lock;
  std::condition_variable arrived;
  std::vector<std::string> lines;
  log_to([&](log_level level, std::string_view line) {
    const std::lock_guard hold{lock};
    lines.push_back((level == log_level::warning ? "warning: " : "")
                    + std::string{line});
    arrived.notify_all();
  });
  {
    server_side server{
      {.connection = {.credentials = credentials_of("right")}}};
    runtime client_runtime;
    const auto why = failure_of([&] {
      remote_node{client_runtime,
                  server.node.address(),
                  {.connection = {.credentials = credentials_of("wrong")},
                   .connect_timeout = 1h}};
    });
    EXPECT_EQ(why.code, ec::refused);
    EXPECT_NE(std::string{why.what()}.find("its secret is another than that "
                                           "of this process: give both"),
              std::string::npos)
      << why.what();
    std::unique_lock hold{lock};
    EXPECT_TRUE(
      arrived.wait_for(hold, patience, [&] { return !lines.empty(); }));
  }
  log_to(nullptr);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].rfind("warning: a connection from 127.0.0.1:", 0), 0u)
    << lines[0];
  EXPECT_NE(lines[0].find("it does not know the secret: give both processes"),
            std::string::npos)
    << lines[0];
}

TEST(RemoteNode, SpawnsARoleThatRespondsLikeALocalOne) {
  server_side server;
  runtime client_runtime;
  remote_node node{client_runtime, server.node.address()};
  const auto one = node.spawn<counter_actor>("counter", 41);
  EXPECT_EQ(add(client_runtime, one, 1), 42);
  EXPECT_EQ(add(client_runtime, one, 1), 43);
  EXPECT_EQ(node.info().running, std::vector<std::string>{"counter"});
}

TEST(RemoteNode, ReportsTheReasonOfARejection) {
  server_side server;
  runtime client_runtime;
  remote_node node{client_runtime, server.node.address()};
  const auto why = failure_of([&] { node.spawn<counter_actor>("couter", 41); });
  EXPECT_EQ(why.code, ec::refused);
  EXPECT_EQ(why.what(), "node " + server.node.address()
                          + ": spawning \"couter\": this node has no role "
                            "\"couter\"; it has: counter");
  EXPECT_EQ(failure_of([&] { node.spawn<counter_actor>("counter"); }).code,
            ec::invalid);
}

TEST(RemoteNode, RejectsAResponseWithAChannelThatIsOpenAlready) {
  const node_actor::behavior_type behavior{
    [](atom::spawn, const spawn_request&) { return root_channel; },
    [](atom::info) { return node_info{}; }, [](atom::stop) {}};
  runtime server_runtime, client_runtime;
  const auto fake_node = server_runtime.system().spawn(
    [behavior]() -> node_actor::behavior_type { return behavior; });
  net::endpoint_options config;
  config.listen = net::address{"127.0.0.1", 0};
  service_router router{config};
  skeleton_actor node_skeleton; // keeps the skeleton alive
  const auto served =
    router.serve({}, "node",
                 {[](const net::hello&) { return net::hello_response{}; },
                  [&](const net::hello&, net::accepted_connection&& x) {
                    auto& it = std::get<std::shared_ptr<net::connection>>(x);
                    node_skeleton =
                      spawn_skeleton(server_runtime.system(), fake_node,
                                     it->open(root_channel));
                  }});
  router.open();
  remote_node node{client_runtime,
                   to_string(router.endpoint().advertised_address())};
  const auto why = failure_of([&] { node.spawn<counter_actor>("counter", 1); });
  EXPECT_EQ(why.code, ec::protocol) << why.what();
  const std::string said = why.what();
  EXPECT_NE(said.find("spawning \"counter\""), said.npos) << said;
}

TEST(RemoteNode, ReportsThatNoProcessListens) {
  std::string address;
  {
    server_side server;
    address = server.node.address();
  }
  runtime client_runtime;
  const auto why = failure_of([&] {
    remote_node{client_runtime, address, {.connect_timeout = 200ms}};
  });
  EXPECT_EQ(why.code, ec::peer_lost);
  const std::string said = why.what();
  EXPECT_EQ(said.rfind(address, 0), 0u) << said;
  EXPECT_EQ(said.find(address, 1), said.npos)
    << said << ": has the address twice";
  EXPECT_THROW((remote_node{client_runtime, "nowhere"}), std::invalid_argument);
}

TEST(RemoteNode, ConnectsOnlyWithTheSecret) {
  server_side server{
    {.connection = {.credentials = credentials_of("open sesame")}}};
  runtime client_runtime;
  for (const auto& bad : {credentials_of("open barley"), net::credentials{}})
    failure_of([&] {
      remote_node{
        client_runtime,
        server.node.address(),
        {.connection = {.credentials = bad}, .connect_timeout = 500ms}};
    });
  remote_node node{
    client_runtime,
    server.node.address(),
    {.connection = {.credentials = credentials_of("open sesame")}}};
  EXPECT_EQ(add(client_runtime, node.spawn<counter_actor>("counter", 1), 1), 2);
}

/// Expects that a client with the credentials of the environment can connect
/// and that a client without credentials cannot.
void expect_served_by_the_environment() {
  server_side server;
  runtime client_runtime;
  remote_node node{client_runtime, server.node.address()};
  EXPECT_EQ(add(client_runtime, node.spawn<counter_actor>("counter", 1), 1), 2);
  failure_of([&] {
    remote_node{client_runtime,
                server.node.address(),
                {.connection = {.credentials = net::credentials{}},
                 .connect_timeout = 500ms}};
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
  server_side server;
  runtime client_runtime;
  remote_node other_client{client_runtime, server.node.address()};
  counter_actor kept;
  {
    remote_node node{client_runtime, server.node.address()};
    kept = node.spawn<counter_actor>("counter", 1);
    EXPECT_EQ(other_client.info().running.size(), 1u);
  }
  EXPECT_EQ(exit_reason_of(client_runtime, kept, [] {}), ec::peer_lost);
  EXPECT_TRUE(
    becomes_true([&] { return other_client.info().running.empty(); }));
}

TEST(RemoteNode, NotifiesMonitorsOfTheReasonARoleEnded) {
  auto server = std::make_unique<server_side>();
  runtime client_runtime;
  remote_node node{client_runtime, server->node.address()};
  const auto ends = node.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(exit_reason_of(client_runtime, ends,
                           [&] { caf::anon_send(ends, atom::stop_v); }),
            caf::exit_reason::user_shutdown);
  const auto fails = node.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(exit_reason_of(client_runtime, fails,
                           [&] { caf::anon_send(fails, atom::next_v); }),
            ec::peer_lost);
  const auto left = node.spawn<counter_actor>("counter", 1);
  EXPECT_EQ(exit_reason_of(client_runtime, left, [&] { server.reset(); }),
            ec::peer_lost);
  EXPECT_EQ(failure_of([&] { node.info(); }).code, ec::peer_lost);
}

TEST(RemoteNode, StopsANode) {
  server_side server;
  runtime client_runtime;
  remote_node node{client_runtime, server.node.address()};
  const auto role = node.spawn<counter_actor>("counter", 1);
  EXPECT_FALSE(server.node.wait_for_stop(0ms));
  // The end of the role or the end of the connection may arrive first, and the
  // two have different exit reasons. Therefore the test accepts any error.
  EXPECT_TRUE(exit_reason_of(client_runtime, role, [&] { node.stop(); }));
  EXPECT_TRUE(server.node.wait_for_stop(patience));
}

namespace {

using moody_actor = caf::typed_actor<
  // Throws an exception if the number is negative. Returns the sum of the
  // numbers.
  caf::replies_to<int>::with<int>,
  // Never responds.
  caf::replies_to<bool>::with<int>,
  // Throws an exception.
  caf::reacts_to<atom::next>>;

struct moody_state {
  static inline const char* name = "moody";
  int total = 0;
  std::vector<caf::typed_response_promise<int>> promises;
};

moody_actor::behavior_type
moody(moody_actor::stateful_pointer<moody_state> self) {
  return {[self](int x) -> caf::result<int> {
            auto lost_promise = self->make_response_promise<int>();
            if (x < -1)
              throw job_error{ec::busy, "not more than one"};
            if (x < 0)
              throw std::runtime_error("-1 is negative");
            lost_promise.deliver(self->state.total += x);
            return lost_promise;
          },
          [self](bool) -> caf::result<int> {
            return self->state.promises.emplace_back(
              self->make_response_promise<int>());
          },
          [](atom::next) { throw 3; }};
}

moody_actor::behavior_type
strict(moody_actor::stateful_pointer<moody_state> self) {
  install_exception_handler(self);
  return moody(self);
}

moody_actor::behavior_type
stillborn(moody_actor::stateful_pointer<moody_state>) {
  throw std::runtime_error("no memory");
}

struct moody_node : server_side {
  moody_node() {
    register_role<moody_actor>(local_runtime, "moody", moody);
    register_role<moody_actor>(local_runtime, "strict", strict);
    register_role<moody_actor>(local_runtime, "stillborn", stillborn);
  }
};

template <class... Ts>
int ask_for_int(runtime& client_runtime, const moody_actor& role,
                const Ts&... xs) {
  return ask<int>(client_runtime.system(), "adding", role, patience, xs...);
}

} // namespace

TEST(RemoteRole, RespondsWithTheTextOfAnExceptionAndContinues) {
  moody_node server;
  runtime client_runtime;
  remote_node node{client_runtime, server.node.address()};
  const auto role = node.spawn<moody_actor>("moody");
  EXPECT_EQ(ask_for_int(client_runtime, role, 4), 4);
  const auto why = failure_of([&] { ask_for_int(client_runtime, role, -1); });
  EXPECT_EQ(why.code, ec::invalid);
  EXPECT_STREQ(why.what(), "adding: -1 is negative");
  const auto busy = failure_of([&] { ask_for_int(client_runtime, role, -2); });
  EXPECT_EQ(busy.code, ec::busy);
  EXPECT_STREQ(busy.what(), "adding: not more than one");
  caf::anon_send(role, atom::next_v);
  EXPECT_EQ(ask_for_int(client_runtime, role, 2), 6) << "it kept its state";
}

TEST(RemoteRole, EndsByAnExceptionIfItsBehaviorAsksForThat) {
  moody_node server;
  runtime client_runtime;
  remote_node node{client_runtime, server.node.address()};
  for (const auto* name : {"strict", "stillborn"}) {
    const auto role = node.spawn<moody_actor>(name);
    const auto why =
      exit_reason_of(client_runtime, role, [&] { caf::anon_send(role, -1); });
    const auto text = client_runtime.system().render(why);
    EXPECT_EQ(why, ec::peer_lost) << text;
    EXPECT_NE(
      text.find(name == std::string{"strict"} ? "-1 is negative" : "no memory"),
      text.npos)
      << text;
  }
}

TEST(RemoteRole, IsWaitedForNoLongerThanTold) {
  moody_node server;
  runtime client_runtime;
  remote_node node{client_runtime, server.node.address()};
  const auto role = node.spawn<moody_actor>("moody");
  const auto why = failure_of(
    [&] { ask<int>(client_runtime.system(), "waiting", role, 20ms, true); });
  EXPECT_EQ(why.code, ec::stalled);
  EXPECT_STREQ(why.what(), "waiting: no response within 20 ms");
}

TEST(RemoteRole, IsLostWithItsProcessOrWithItsClient) {
  auto server = std::make_unique<moody_node>();
  runtime client_runtime;
  const auto address = server->node.address();
  auto node = std::make_unique<remote_node>(client_runtime, address);
  const auto released = node->spawn<moody_actor>("moody");
  exit_reason_of(client_runtime, released, [&] { node.reset(); });
  const auto mine =
    failure_of([&] { ask_for_int(client_runtime, released, 1); });
  EXPECT_EQ(mine.code, ec::peer_lost);
  EXPECT_STREQ(mine.what(), "adding: the client closed the node's handle");
  node = std::make_unique<remote_node>(client_runtime, address);
  const auto lost = node->spawn<moody_actor>("moody");
  exit_reason_of(client_runtime, lost, [&] { server.reset(); });
  const auto why = failure_of([&] { ask_for_int(client_runtime, lost, 1); });
  EXPECT_EQ(why.code, ec::peer_lost);
  EXPECT_EQ(std::string{why.what()}.rfind(
              "adding: the process of node " + address + " ended: ", 0),
            0u)
    << why.what();
}
