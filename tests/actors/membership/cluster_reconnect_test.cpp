#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <future>

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Dials a member of a job as another member does.
struct dialer {
  net::endpoint::dial_result dial(const membership::member& to,
                                  const membership::join_request& as,
                                  std::uint64_t view_id) {
    return dial(
      {to.host, to.port},
      make_reconnect_hello("job", "dialer", as, view_id, to.incarnation));
  }
  net::endpoint::dial_result dial(const net::address& address,
                                  const net::hello& hello) {
    const auto done =
      std::make_shared<std::promise<net::endpoint::dial_result>>();
    endpoint.dial(address, hello, 20s, [done](net::endpoint::dial_result&& x) {
      done->set_value(std::move(x));
    });
    auto result = done->get_future();
    if (result.wait_for(60s) != std::future_status::ready)
      throw std::runtime_error{"the connection attempt did not end"};
    return result.get();
  }

  net::endpoint endpoint{net::endpoint_options{}};
};

peer_table& peers_of(member& x) {
  return *x.joined_cluster->implementation().peers();
}

std::shared_ptr<net::connection> connection_to(member& x, std::uint32_t task) {
  auto& peers = peers_of(x);
  return peers.get([&] { return peers.entries[task].connection; });
}

/// Returns why a connection has ended.
std::string end_of(net::connection& x) {
  const auto end = std::make_shared<std::promise<std::string>>();
  x.on_closed(
    [end](net::close_reason, const std::string& why) { end->set_value(why); });
  auto why = end->get_future();
  return why.wait_for(60s) == std::future_status::ready ? why.get()
                                                        : "it did not end";
}

struct ClusterReconnects : ::testing::Test {
  ClusterReconnects() {
    three.join();
    for (const auto& x : three.members)
      EXPECT_EQ(x.problem, "");
  }
  ~ClusterReconnects() override {
    three.for_each_member(
      [](member& x, std::uint32_t) { x.joined_cluster->leave(); });
  }

  membership::member in_view(std::uint32_t task) {
    return three.members[2].joined_cluster->current_view().members[task];
  }
  /// What worker 2 says of itself.
  membership::join_request worker_two() {
    const auto self = in_view(2);
    return {self.task, self.incarnation, self.host, self.port, 1, {}};
  }

  cluster_fixture three{3};
  dialer other;
};

TEST_F(ClusterReconnects, RejectsAnotherIncarnationAndAnUnknownTask) {
  auto restarted = worker_two();
  ++restarted.incarnation;
  auto unknown = worker_two();
  unknown.task = 3;
  for (const auto& as : {restarted, unknown}) {
    const auto result = other.dial(in_view(0), as, 1);
    EXPECT_TRUE(result.rejected);
    EXPECT_FALSE(result.connection);
  }
  EXPECT_TRUE(mentions(other.dial(in_view(1), restarted, 1).reason,
                       "this incarnation of worker 2"));
  EXPECT_EQ(three.members[0].joined_cluster->current_view().members.size(), 3u);
}

/// A process dials again, and reaches the one that was started in the place of
/// the killed one. Their good connection stays open.
TEST_F(ClusterReconnects, RejectsADialToTheProcessThatItHasReplaced) {
  const auto before = connection_to(three.members[0], 2);
  auto killed = in_view(0);
  ++killed.incarnation;
  const auto result = other.dial(killed, worker_two(), 1);
  EXPECT_TRUE(result.rejected);
  EXPECT_FALSE(result.connection);
  EXPECT_TRUE(mentions(result.reason, "chief 0 was started again"))
    << result.reason;
  EXPECT_EQ(result.peer.incarnation, in_view(0).incarnation);
  EXPECT_EQ(connection_to(three.members[0], 2), before);
  EXPECT_FALSE(peers_of(three.members[0]).get([&] {
    return peers_of(three.members[0]).entries[2].closed;
  }));
}

/// A process of an older view that the current one does not contain.
TEST_F(ClusterReconnects, ClosesTheConnectionOfAFormerMember) {
  auto former = worker_two();
  ++former.incarnation;
  const auto result = other.dial(in_view(0), former, 0);
  ASSERT_TRUE(result.connection) << result.reason;
  const auto why =
    end_of(*std::get<std::shared_ptr<net::connection>>(*result.connection));
  EXPECT_TRUE(mentions(why, "worker 2 is not a member of view 1")) << why;
}

/// After a renewal, streams of the view before it may still arrive.
TEST_F(ClusterReconnects, RejectsAStreamOfAnOlderView) {
  const auto old = other.dial(
    three.addresses[0],
    make_stream_hello("job", "dialer", "contributions", worker_two(), 0));
  EXPECT_TRUE(old.rejected);
  EXPECT_TRUE(mentions(old.reason, "the stream belongs to view 0"));
  const auto current = other.dial(
    three.addresses[0],
    make_stream_hello("job", "dialer", "contributions", worker_two(), 1));
  EXPECT_TRUE(current.connection) << current.reason;
}

/// Worker 2 connects although worker 0 does not know that they were
/// disconnected.
TEST_F(ClusterReconnects, ReplacesAConnectionThatIsStillOpen) {
  const auto before = connection_to(three.members[0], 2);
  const auto result = other.dial(in_view(0), worker_two(), 1);
  ASSERT_TRUE(result.connection) << result.reason;
  EXPECT_TRUE(mentions(end_of(*before), "connected again"));
  const auto& made =
    std::get<std::shared_ptr<net::connection>>(*result.connection);
  auto& peers = peers_of(three.members[0]);
  std::unique_lock hold{peers.lock};
  EXPECT_TRUE(peers.wait(hold, peer_table::clock::now() + 60s, [&] {
    return peers.entries[2].connection != before && !peers.entries[2].closed;
  }));
  hold.unlock();
  made->close("the test ends");
}

} // namespace
