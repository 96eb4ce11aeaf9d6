#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/spare_acceptor.hpp"
#include "troupe/actors/node/spare_announcer.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/tests/net/security/certificates.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>

// Nodes that announce themselves to a client as spares, over real sockets.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

using troupe::test::becomes_true;
using troupe::test::patience;

/// Sentences that other threads report.
class sentences {
public:
  void add(const std::string& text) {
    const std::lock_guard hold{lock_};
    all_.push_back(text);
    changed_.notify_all();
  }
  /// Waits until `count` sentences contain the text.
  bool wait_for(const std::string& text, int count = 1) {
    std::unique_lock hold{lock_};
    const auto contains = [&](const std::string& x) {
      return x.find(text) != x.npos;
    };
    const auto found = changed_.wait_for(hold, patience, [&] {
      return std::ranges::count_if(all_, contains) >= count;
    });
    if (!found)
      for (const auto& x : all_)
        ADD_FAILURE() << "\"" << text << "\" is not in: " << x;
    return found;
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

std::uint64_t next_seed() {
  return std::random_device{}();
}

/// The client's side.
struct client_side {
  explicit client_side(spare_acceptor::options config = {}) {
    if (config.listen.empty())
      config.listen = "127.0.0.1:0";
    config.incarnation = 99;
    config.log = [this](net::severity, const std::string& x) { log.add(x); };
    acceptor.emplace(config);
  }

  /// Waits until these spares wait.
  void expect_waiting(const std::vector<std::string>& addresses) {
    EXPECT_TRUE(becomes_true([&] { return acceptor->waiting() == addresses; }))
      << acceptor->waiting().size() << " spares wait";
  }

  sentences log; // outlives the acceptor
  std::optional<spare_acceptor> acceptor;
};

/// The node's side, without a node.
struct announcing {
  explicit announcing(const std::string& client,
                      spare_announcer::options config = {},
                      net::credentials credentials = {})
    : router{std::make_shared<service_router>(
      net::endpoint_options{.listen = net::address{"127.0.0.1", 0},
                            .connection = {.credentials = credentials}})},
      address{to_string(router->endpoint().advertised_address())} {
    config.client = client;
    config.name = "node";
    if (config.incarnation == 0)
      config.incarnation = router->endpoint().advertised_address().port;
    config.seed = next_seed();
    ::testing::Test::RecordProperty("seed", std::to_string(config.seed));
    if (!config.describe)
      config.describe = [this] {
        ++attempts;
        return spare_description{address, {"counter"}};
      };
    config.on_event = [this](const std::string& x) { events.add(x); };
    config.on_failure = [this](const job_error& e) {
      code = e.code;
      failures.add(e.what());
    };
    announcer = std::make_unique<spare_announcer>(router, config);
  }

  std::shared_ptr<service_router> router;
  std::string address;
  std::atomic<int> attempts = 0;
  std::atomic<ec> code = ec::busy;
  sentences events, failures;
  std::unique_ptr<spare_announcer> announcer;
};

} // namespace

// -- the node -----------------------------------------------------------------

TEST(SpareAnnouncer, TriesAgainUntilTheClientListens) {
  const net::reserved_ports ports{1};
  const auto address = "127.0.0.1:" + std::to_string(ports.numbers()[0]);
  announcing node{address};
  ASSERT_TRUE(becomes_true([&] { return node.attempts >= 4; }));
  client_side client{{.listen = address}};
  client.expect_waiting({node.address});
  EXPECT_TRUE(
    node.events.wait_for("waits as a spare of the client at " + address));
}

TEST(SpareAnnouncer, GivesUpWithASentenceThatNamesTheOptions) {
  const net::reserved_ports ports{1};
  const auto address = "127.0.0.1:" + std::to_string(ports.numbers()[0]);
  announcing node{address, {.join_timeout = 300ms}};
  EXPECT_TRUE(node.failures.wait_for(
    "join " + address
    + ": no client has accepted this node within join_timeout, 300 ms ("
    + address + ": not reached (Connection refused))"));
  EXPECT_EQ(node.code, ec::unreachable);
  EXPECT_GE(node.attempts, 2);
}

TEST(SpareAnnouncer, AnnouncesItselfAgainWhenTheClientIsLost) {
  const net::reserved_ports ports{1};
  const auto address = "127.0.0.1:" + std::to_string(ports.numbers()[0]);
  auto client =
    std::make_unique<client_side>(spare_acceptor::options{.listen = address});
  announcing node{address};
  client->expect_waiting({node.address});
  client.reset();
  EXPECT_TRUE(node.events.wait_for("was lost"));
  client =
    std::make_unique<client_side>(spare_acceptor::options{.listen = address});
  client->expect_waiting({node.address});
  EXPECT_TRUE(node.events.wait_for("waits as a spare", 2));
}

TEST(SpareAnnouncer, IsToldWhatHasBecomeOfIt) {
  for (const auto end :
       {spare_end::used, spare_end::refused, spare_end::released}) {
    client_side client;
    announcing node{client.acceptor->address()};
    client.expect_waiting({node.address});
    const auto spare = client.acceptor->take();
    ASSERT_TRUE(spare);
    EXPECT_EQ(spare->description.address, node.address);
    EXPECT_EQ(spare->description.roles, std::vector<std::string>{"counter"});
    EXPECT_EQ(spare->name, "node");
    EXPECT_TRUE(client.acceptor->waiting().empty());
    spare->end({end, "for a \x1b reason"});
    if (end == spare_end::refused) {
      EXPECT_TRUE(node.failures.wait_for(
        "the client has refused this node: for a ? reason"));
      EXPECT_EQ(node.code, ec::refused);
    } else {
      EXPECT_TRUE(node.events.wait_for(
        end == spare_end::used ? "uses this node: for a ? reason"
                               : "has released this node: for a ? reason"));
    }
    EXPECT_EQ(node.attempts, 2); // the check, and one attempt
  }
}

TEST(SpareAnnouncer, IsRefusedWithAnotherSecretOrNone) {
  client_side client{
    {.connection = {.credentials = net::credentials{.secret = "right"}}}};
  const announcing good{
    client.acceptor->address(), {}, net::credentials{.secret = "right"}};
  client.expect_waiting({good.address});
  announcing other{
    client.acceptor->address(), {}, net::credentials{.secret = "wrong"}};
  EXPECT_TRUE(
    other.failures.wait_for("its secret is another than that of this process"));
  EXPECT_EQ(other.code, ec::refused);
  EXPECT_TRUE(client.log.wait_for("it does not know the secret"));
  announcing none{client.acceptor->address()};
  EXPECT_TRUE(none.failures.wait_for("it requires a secret"));
  EXPECT_EQ(none.code, ec::refused);
  client.expect_waiting({good.address});
}

using SpareAnnouncerOverTls = net::testing::certificate_test;

TEST_F(SpareAnnouncerOverTls, IsRefusedWithAForeignCertificate) {
  const auto with = [](const files& x) {
    return net::credentials{.tls = std::make_shared<files>(x)};
  };
  client_side client{{.connection = {.credentials = with(good("client"))}}};
  const announcing trusted{client.acceptor->address(), {}, with(good("node"))};
  client.expect_waiting({trusted.address});
  announcing foreigner{client.acceptor->address(), {}, with(foreign())};
  EXPECT_TRUE(foreigner.failures.wait_for("certificate"));
  EXPECT_EQ(foreigner.code, ec::refused);
  EXPECT_EQ(foreigner.attempts, 2); // the check, and one attempt
  client.expect_waiting({trusted.address});
}

TEST(SpareAnnouncer, IsRefusedByAProcessThatDoesNotListenForSpares) {
  runtime other;
  const node_server server{other};
  announcing node{server.address()};
  EXPECT_TRUE(node.failures.wait_for("no service 'spare' of job ''"));
  EXPECT_EQ(node.code, ec::refused);
}

TEST(SpareAnnouncer, ReportsAnOutcomeThatIsMalformed) {
  const auto seed = next_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  for (int i = 0; i < 20; ++i) {
    service_router router{
      net::endpoint_options{.listen = net::address{"127.0.0.1", 0},
                            .connection = {.credentials = net::credentials{}}}};
    const auto served =
      router.serve({}, spare_purpose,
                   {[](const net::hello&) { return net::hello_response{}; },
                    [&](const net::hello&, net::accepted_connection&& x) {
                      const auto& it =
                        std::get<std::shared_ptr<net::connection>>(x);
                      net::frame message;
                      // A valid outcome begins with 1, 2 or 3.
                      message.payload.assign(random() % 40, std::byte{});
                      for (auto& one : message.payload)
                        one = std::byte(4 + random() % 200);
                      it->open(spare_channel)->post(std::move(message));
                    }});
    router.open();
    announcing node{to_string(router.endpoint().advertised_address())};
    EXPECT_TRUE(node.failures.wait_for("the outcome is malformed: byte "));
    EXPECT_EQ(node.code, ec::protocol);
  }
}

TEST(SpareAnnouncer, RejectsAnAddressToWhichNoProcessCanConnect) {
  client_side client;
  for (const std::string bad : {"0.0.0.0:4100", "[::]:4100", "localhost:0"}) {
    EXPECT_THROW(
      (announcing{client.acceptor->address(),
                  {.describe = [=] { return spare_description{bad}; }}}),
      std::invalid_argument)
      << bad;
  }
  EXPECT_THROW((announcing{"nowhere"}), std::invalid_argument);
  EXPECT_THROW((announcing{"192.0.2.1:4100"}), std::invalid_argument);
}

TEST(SpareAnnouncer, OfANodeMakesTheWaitForItsEndThrow) {
  client_side client{{.fault_of = [](const spare_description& x) {
    return "no use for " + x.roles.at(0);
  }}};
  runtime local;
  register_role<
    caf::typed_actor<caf::replies_to<std::string>::with<std::string>>>(
    local, "echo", [] {
      return caf::typed_actor<
        caf::replies_to<std::string>::with<std::string>>::behavior_type{
        [](const std::string& x) { return x; }};
    });
  node_server node{local, {.join = client.acceptor->address()}};
  try {
    node.wait_for_stop(patience);
    ADD_FAILURE() << "no exception was thrown";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::refused);
    const std::string said = e.what();
    EXPECT_EQ(said.rfind("join " + client.acceptor->address(), 0), 0u) << said;
    EXPECT_NE(said.find("no use for echo"), said.npos) << said;
  }
  EXPECT_TRUE(client.log.wait_for("no use for echo"));
}

// -- the client ---------------------------------------------------------------

TEST(SpareAcceptor, KeepsSparesInTheOrderOfTheirArrival) {
  client_side client;
  const announcing first{client.acceptor->address()};
  client.expect_waiting({first.address});
  const announcing second{client.acceptor->address()};
  client.expect_waiting({first.address, second.address});
  EXPECT_EQ(client.acceptor->take()->description.address, first.address);
  EXPECT_EQ(client.acceptor->take()->description.address, second.address);
  EXPECT_FALSE(client.acceptor->take());
}

TEST(SpareAcceptor, DropsASpareThatEnds) {
  client_side client;
  auto first = std::make_unique<announcing>(client.acceptor->address());
  client.expect_waiting({first->address});
  const announcing second{client.acceptor->address()};
  client.expect_waiting({first->address, second.address});
  const auto dead = first->address;
  first.reset();
  EXPECT_TRUE(
    client.log.wait_for("the spare " + dead + " does not wait any more"));
  client.expect_waiting({second.address});
  EXPECT_EQ(client.acceptor->take()->description.address, second.address);
}

TEST(SpareAcceptor, ReleasesTheSparesThatWait) {
  client_side client;
  announcing first{client.acceptor->address()};
  announcing second{client.acceptor->address()};
  EXPECT_TRUE(
    becomes_true([&] { return client.acceptor->waiting().size() == 2; }));
  client.acceptor->release("the job has ended");
  EXPECT_TRUE(client.acceptor->waiting().empty());
  for (auto* node : {&first, &second})
    EXPECT_TRUE(
      node->events.wait_for("has released this node: the job has ended"));
}

TEST(SpareAcceptor, DisconnectsASpareThatThenComesBack) {
  client_side client;
  announcing node{client.acceptor->address()};
  client.expect_waiting({node.address});
  client.acceptor->take()->disconnect("the job waits");
  EXPECT_TRUE(node.events.wait_for("was lost (the job waits)"));
  client.expect_waiting({node.address});
}

TEST(SpareAcceptor, TakesTheFirstSpareToWhichTheFilterApplies) {
  client_side client;
  const announcing first{client.acceptor->address()};
  client.expect_waiting({first.address});
  const announcing second{client.acceptor->address()};
  client.expect_waiting({first.address, second.address});
  const auto is_second = [&](const waiting_spare& x) {
    return x.description.address == second.address;
  };
  EXPECT_EQ(client.acceptor->waiting(is_second),
            std::vector<std::string>{second.address});
  EXPECT_EQ(client.acceptor->take(is_second)->description.address,
            second.address);
  EXPECT_FALSE(client.acceptor->take(is_second));
  client.expect_waiting({first.address});
}

TEST(SpareAcceptor, NeedsNoLog) {
  spare_acceptor acceptor{{.listen = "127.0.0.1:0"}};
  auto node = std::make_unique<announcing>(acceptor.address());
  EXPECT_TRUE(becomes_true([&] { return acceptor.waiting().size() == 1; }));
  node.reset();
  EXPECT_TRUE(becomes_true([&] { return acceptor.waiting().empty(); }));
}

TEST(SpareAcceptor, LetsAnotherProcessAtTheAddressOfASpareWait) {
  client_side client;
  const std::string address = "127.0.0.1:4100";
  const auto describe = [=] { return spare_description{address}; };
  auto first = std::make_unique<announcing>(
    client.acceptor->address(),
    spare_announcer::options{.incarnation = 1, .describe = describe});
  client.expect_waiting({address});
  std::atomic<int> attempts = 0;
  announcing second{client.acceptor->address(),
                    {.incarnation = 2, .describe = [&] {
                       ++attempts;
                       return describe();
                     }}};
  ASSERT_TRUE(becomes_true([&] { return attempts >= 4; }));
  EXPECT_TRUE(
    client.log.wait_for("another process waits as a spare at " + address));
  first.reset();
  EXPECT_TRUE(second.events.wait_for("waits as a spare"));
  client.expect_waiting({address});
  EXPECT_EQ(client.acceptor->take()->incarnation, 2u);
}

TEST(SpareAcceptor, KeepsOneConnectionOfAProcess) {
  client_side client;
  const auto describe = [] { return spare_description{"127.0.0.1:4100"}; };
  announcing first{client.acceptor->address(),
                   {.incarnation = 1, .describe = describe}};
  client.expect_waiting({"127.0.0.1:4100"});
  announcing again{client.acceptor->address(),
                   {.incarnation = 1, .describe = describe}};
  EXPECT_TRUE(again.events.wait_for("waits as a spare"));
  EXPECT_TRUE(first.events.wait_for("the node has announced itself again"));
  client.expect_waiting({"127.0.0.1:4100"});
}

TEST(SpareAcceptor, KeepsNoMoreSparesThanItsLimit) {
  client_side client{{.max_spares = 1}};
  auto first = std::make_unique<announcing>(client.acceptor->address());
  client.expect_waiting({first->address});
  announcing second{client.acceptor->address()};
  EXPECT_TRUE(client.log.wait_for("1 spares wait, and the client keeps no"));
  first.reset();
  client.expect_waiting({second.address});
}

TEST(SpareAcceptor, RejectsMalformedHellosWithASentenceAndGoesOn) {
  const auto seed = next_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  client_side client;
  const auto endpoint = make_client_endpoint({});
  const auto refusal = [&](std::vector<std::byte> payload) -> std::string {
    try {
      connect(*endpoint, client.acceptor->address(),
              {{}, "hostile", 7, spare_purpose, std::move(payload)}, patience);
    } catch (const job_error& e) {
      EXPECT_EQ(e.code, ec::refused);
      return e.what();
    }
    return "accepted";
  };
  for (int i = 0; i < 50; ++i) {
    // An address of many bytes, of which few follow.
    std::vector<std::byte> payload(random() % 200);
    for (auto& one : payload)
      one = std::byte(1 + random() % 255);
    const auto said = refusal(std::move(payload));
    EXPECT_NE(said.find("the description of the spare is malformed: byte "),
              said.npos)
      << said;
  }
  for (const auto* address : {"", "here", "host:70000", "0.0.0.0:1", "::1:1",
                              "127.0.0.1:0", "\x1b[2J:1"}) {
    auto description = spare_description{address};
    const auto said = refusal(net::encode(description));
    EXPECT_NE(said.find("address"), said.npos) << said;
    EXPECT_EQ(said.find('\x1b'), said.npos) << said;
  }
  EXPECT_TRUE(client.acceptor->waiting().empty());
  const announcing node{client.acceptor->address()};
  client.expect_waiting({node.address});
}
