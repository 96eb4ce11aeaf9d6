#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/codec/frame.hpp"
#include "troupe/strategies/membership/view_messages.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"
#include "troupe/tests/net/session/raw_sockets.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <future>

// Tests of a leader against a peer that breaks the protocol.

using namespace troupe;
using namespace troupe::testing;

namespace {

using troupe::test::patience;

/// A process that joins a cluster. The test chooses each message that this
/// process sends.
struct impostor {
  impostor(std::uint32_t task, std::uint32_t tasks) {
    request.task = task;
    request.incarnation = 7;
    request.host = "127.0.0.1";
    request.port = 1;
    request.config = {"wire " + std::to_string(net::wire_version),
                      std::string{kernel_level()}, 1, tasks, ""};
  }

  net::endpoint::dial_result dial(const net::address& address,
                                  const std::string& purpose) {
    const auto hello =
      net::carries_frames(purpose)
        ? make_join_hello("job", "impostor", purpose, request)
        : make_stream_hello("job", "impostor", purpose, request, 1);
    const auto done =
      std::make_shared<std::promise<net::endpoint::dial_result>>();
    auto result = done->get_future();
    endpoint.dial(address, hello, patience,
                  [done](net::endpoint::dial_result&& x) {
                    done->set_value(std::move(x));
                  });
    if (result.wait_for(2 * patience) != std::future_status::ready)
      throw std::runtime_error{"the connection attempt did not end"};
    return result.get();
  }

  /// Dials until the leader has registered a service with this purpose.
  net::endpoint::dial_result find(const net::address& address,
                                  const std::string& purpose) {
    for (;;)
      if (auto x = dial(address, purpose);
          x.connection || !is_retryable(x.payload))
        return x;
  }

  membership::join_request request;
  net::endpoint endpoint{net::endpoint_options{}};
};

} // namespace

namespace {

/// A process joins a job of three, sends a message on a channel, and is
/// disconnected with this reason.
void expect_disconnect(std::uint32_t channel, std::vector<std::byte> payload,
                       const char* reason) {
  cluster_fixture processes{3};
  processes.start_timeout = 2s;
  std::thread leader{[&] { processes.join({0}); }};
  impostor fake_member{1, 3};
  auto x = fake_member.find(processes.addresses[0], "control");
  EXPECT_TRUE(x.connection) << x.reason;
  if (x.connection) {
    const auto wire = std::get<std::shared_ptr<net::connection>>(*x.connection);
    std::promise<std::string> end;
    wire->on_closed(
      [&](net::close_reason, const std::string& why) { end.set_value(why); });
    wire->open(channel)->post({net::frame_kind::oneway, net::priority::control,
                               0, 1, std::move(payload)});
    auto why = end.get_future();
    if (why.wait_for(patience) == std::future_status::ready)
      EXPECT_TRUE(mentions(why.get(), reason));
    else
      ADD_FAILURE() << "the connection stays open";
  }
  leader.join();
  EXPECT_TRUE(mentions(processes.members[0].problem,
                       "worker 1 and worker 2 did not join"))
    << processes.members[0].problem;
}

} // namespace

TEST(ClusterHostile, AMemberThatSendsAMalformedMessageIsDisconnected) {
  expect_disconnect(membership_channel, std::vector<std::byte>(9),
                    "membership message is malformed");
  expect_disconnect(view_change_channel, std::vector<std::byte>(9),
                    "message of a view change is malformed");
  expect_disconnect(packet_report_channel, std::vector<std::byte>(9),
                    "a report of packets is malformed");
}

TEST(ClusterHostile, AMemberThatProposesAnUnknownTaskIsDisconnected) {
  view_change::message install;
  install.kind = view_change::message_kind::install;
  install.proposals.push_back({});
  install.proposals[0].proposal.next = {2, {{9, 99, "127.0.0.1", 1, {0}, 1}}};
  expect_disconnect(view_change_channel, net::encode(install),
                    "a message of a view change names task 9 of 3");
}

TEST(ClusterHostile, AMemberThatSendsAViewHasNoEffect) {
  cluster_fixture processes{3};
  processes.start_timeout = 2s;
  std::thread leader{[&] { processes.join({0}); }};
  impostor fake_member{1, 3};
  auto x = fake_member.find(processes.addresses[0], "control");
  EXPECT_TRUE(x.connection) << x.reason;
  if (x.connection) {
    const auto wire = std::get<std::shared_ptr<net::connection>>(*x.connection);
    const auto line = wire->open(membership_channel);
    EXPECT_TRUE(
      line->post({net::frame_kind::oneway, net::priority::control, 0, 1,
                  net::encode(membership::message_kind::view, std::string{},
                              membership::view{7, {}})}));
    // a leader that is ready would start the job on these messages
    for (const auto kind :
         {membership::message_kind::ready, membership::message_kind::start})
      EXPECT_TRUE(line->post(
        {net::frame_kind::oneway, net::priority::control, 0, 2,
         net::encode(kind, std::string{}, membership::view{7, {}})}));
  }
  leader.join();
  EXPECT_EQ(processes.members[0].problem,
            "job 'job' cannot begin: for 2000 ms worker 2 did not join ("
              + to_string(processes.addresses[2]) + ")");
}

TEST(ClusterHostile, AMemberThatDiesBeforeItsLanesAreOpenIsReportedAtOnce) {
  using clock = std::chrono::steady_clock;
  struct view_listener final : net::channel_listener {
    void on_frame(net::frame&&) override {
      if (!std::exchange(notified, true))
        received.set_value();
    }
    void on_closed(net::close_reason, const std::string&) override {}
    std::promise<void> received;
    bool notified = false;
  };
  cluster_fixture processes{2};
  processes.start_timeout = 60s;
  const auto begun = clock::now();
  std::thread leader{[&] { processes.join({0}); }};
  {
    impostor fake_member{1, 2};
    auto x = fake_member.find(processes.addresses[0], "control");
    ASSERT_TRUE(x.connection) << x.reason;
    const auto listener = std::make_shared<view_listener>();
    std::get<std::shared_ptr<net::connection>>(*x.connection)
      ->open(membership_channel)
      ->set_listener(listener);
    EXPECT_EQ(listener->received.get_future().wait_for(patience),
              std::future_status::ready);
  }
  leader.join();
  EXPECT_EQ(processes.members[0].code, ec::peer_lost);
  EXPECT_TRUE(mentions(processes.members[0].problem,
                       "worker 1 was lost during the start"))
    << processes.members[0].problem;
  EXPECT_LT(clock::now() - begun, processes.start_timeout / 2);
}

TEST(ClusterHostile, AnotherIncarnationIsNoPeerOfAParticipant) {
  cluster_fixture processes{3};
  processes.join();
  for (const auto& x : processes.members)
    ASSERT_EQ(x.problem, "");
  impostor other{2, 3};
  auto x = other.find(processes.addresses[1], "peer");
  ASSERT_TRUE(x.connection) << x.reason;
  std::promise<std::string> end;
  std::get<std::shared_ptr<net::connection>>(*x.connection)
    ->on_closed(
      [&](net::close_reason, const std::string& why) { end.set_value(why); });
  auto why = end.get_future();
  ASSERT_EQ(why.wait_for(patience), std::future_status::ready);
  EXPECT_TRUE(mentions(why.get(), "the job has begun"));
  EXPECT_EQ(processes.members[1].joined_cluster->current_view().view_id, 1u);
}

TEST(ClusterHostile, RejectedConnectionsAreReportedIfMembersAreMissing) {
  std::string log_line;
  cluster_fixture processes{2};
  processes.start_timeout = 2s;
  processes.adjust_options = [&](std::uint32_t, cluster_options& x) {
    x.log = [&](net::severity, const std::string& line) { log_line = line; };
  };
  std::thread leader{[&] { processes.join({0}); }};
  for (int i = 0; i < 2; ++i) {
    net::testing::raw_socket x{processes.addresses[0]};
    x.send(std::vector<std::byte>(64, std::byte{'?'}));
    EXPECT_TRUE(x.is_closed());
  }
  leader.join();
  const auto& text = processes.members[0].problem;
  EXPECT_TRUE(mentions(text, "worker 1 did not join ("
                               + to_string(processes.addresses[1])
                               + "); 2 connections were closed, the last from "
                                 "127.0.0.1:"))
    << text;
  EXPECT_TRUE(mentions(text, "it uses another protocol")) << text;
  EXPECT_TRUE(mentions(log_line, "job 'job' waits: worker 1 did not join ("))
    << log_line;
}
