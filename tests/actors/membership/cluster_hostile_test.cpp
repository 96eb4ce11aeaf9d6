#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/codec/frame.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"
#include "troupe/tests/net/session/raw_sockets.hpp"

#include <future>

// A process that the leader admits and that then breaks the protocol.

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr auto long_enough = 20s;

/// A member of a cluster that the test controls message by message.
struct impostor {
  explicit impostor(std::uint32_t task) {
    about.task = task;
    about.incarnation = 7;
    about.host = "127.0.0.1";
    about.port = 1;
    about.on = {"wire " + std::to_string(net::wire_version),
                std::string{kernel_level()}, 1, 1, ""};
  }

  net::endpoint::dialed dial(const net::address& where,
                             const std::string& purpose) {
    net::hello who;
    who.job = "job";
    who.name = "impostor";
    who.incarnation = about.incarnation;
    who.purpose = purpose;
    who.note = net::encode(about.task, about.incarnation, about.host,
                           about.port, about.on);
    const auto done = std::make_shared<std::promise<net::endpoint::dialed>>();
    auto heard = done->get_future();
    it.dial(where, who, long_enough, [done](net::endpoint::dialed&& x) {
      done->set_value(std::move(x));
    });
    if (heard.wait_for(2 * long_enough) != std::future_status::ready)
      throw std::runtime_error{"the connection attempt did not end"};
    return heard.get();
  }

  /// Dials until a service with this purpose is registered.
  net::endpoint::dialed find(const net::address& where,
                             const std::string& purpose) {
    for (;;)
      if (auto x = dial(where, purpose); x.it || !is_too_early(x.note))
        return x;
  }

  roster::hello about;
  net::endpoint it{net::endpoint_options{}};
};

} // namespace

TEST(ClusterHostile, AMemberThatSendsAMalformedMessageIsDisconnected) {
  company_of all{3};
  all.patience = 2s;
  std::thread leader{[&] { all.join({0}); }};
  impostor other{1};
  auto x = other.find(all.addresses[0], "control");
  EXPECT_TRUE(x.it) << x.why;
  if (x.it) {
    const auto wire = std::get<std::shared_ptr<net::connection>>(*x.it);
    std::promise<std::string> end;
    wire->on_end(
      [&](net::ending, const std::string& why) { end.set_value(why); });
    wire->open(membership_channel)
      ->post({net::frame_kind::fact, net::priority::control, 0, 1,
              std::vector<std::byte>(9)});
    auto why = end.get_future();
    if (why.wait_for(long_enough) == std::future_status::ready)
      EXPECT_TRUE(mentions(why.get(), "membership message is malformed"));
    else
      ADD_FAILURE() << "the connection stays open";
  }
  leader.join();
  EXPECT_TRUE(
    mentions(all.members[0].problem, "worker 1 and worker 2 did not join"))
    << all.members[0].problem;
}

TEST(ClusterHostile, AMemberThatSendsAViewHasNoEffect) {
  company_of all{3};
  all.patience = 2s;
  std::thread leader{[&] { all.join({0}); }};
  impostor other{1};
  auto x = other.find(all.addresses[0], "control");
  EXPECT_TRUE(x.it) << x.why;
  if (x.it) {
    const auto wire = std::get<std::shared_ptr<net::connection>>(*x.it);
    const auto line = wire->open(membership_channel);
    EXPECT_TRUE(
      line->post({net::frame_kind::fact, net::priority::control, 0, 1,
                  net::encode(word::table, std::string{}, roster::table{})}));
    // The leader's one thread handles the view before it accepts these streams.
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(other.dial(all.addresses[0], "parts").it);
  }
  leader.join();
  EXPECT_EQ(all.members[0].problem,
            "job 'job' cannot begin: for 2000 ms worker 2 did not join ("
              + to_string(all.addresses[2]) + ")");
}

TEST(ClusterHostile, AMemberThatDiesBeforeItsLanesAreOpenIsReportedAtOnce) {
  using clock = std::chrono::steady_clock;
  struct table_listener final : net::link_listener {
    void heard(net::frame&&) override {
      if (!std::exchange(told, true))
        came.set_value();
    }
    void ended(net::ending, const std::string&) override {}
    std::promise<void> came;
    bool told = false;
  };
  company_of all{2};
  all.patience = 60s;
  const auto begun = clock::now();
  std::thread leader{[&] { all.join({0}); }};
  {
    impostor other{1};
    auto x = other.find(all.addresses[0], "control");
    ASSERT_TRUE(x.it) << x.why;
    const auto listener = std::make_shared<table_listener>();
    std::get<std::shared_ptr<net::connection>>(*x.it)
      ->open(membership_channel)
      ->listen(listener);
    EXPECT_EQ(listener->came.get_future().wait_for(long_enough),
              std::future_status::ready);
  }
  leader.join();
  EXPECT_EQ(all.members[0].code, ec::peer_lost);
  EXPECT_TRUE(
    mentions(all.members[0].problem, "worker 1 was lost during the start"))
    << all.members[0].problem;
  EXPECT_LT(clock::now() - begun, all.patience / 2);
}

TEST(ClusterHostile, RejectedConnectionsAreReportedIfMembersAreMissing) {
  company_of all{2};
  all.patience = 2s;
  std::string waits;
  all.change = [&](std::uint32_t, cluster_options& x) {
    x.log = [&](net::severity, const std::string& line) { waits = line; };
  };
  std::thread leader{[&] { all.join({0}); }};
  for (int i = 0; i < 2; ++i) {
    net::testing::stranger x{all.addresses[0]};
    x.say(std::vector<std::byte>(64, std::byte{'?'}));
    EXPECT_TRUE(x.is_closed());
  }
  leader.join();
  const auto& said = all.members[0].problem;
  EXPECT_TRUE(mentions(said, "worker 1 did not join ("
                               + to_string(all.addresses[1])
                               + "); 2 connections were closed, the last from "
                                 "127.0.0.1:"))
    << said;
  EXPECT_TRUE(mentions(said, "it does not speak this protocol")) << said;
  EXPECT_TRUE(mentions(waits, "job 'job' waits: worker 1 did not join ("))
    << waits;
}
