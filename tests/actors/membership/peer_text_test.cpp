#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <algorithm>
#include <tuple>

// Tests that texts of another process are shown with printable characters only.

using namespace troupe;
using namespace troupe::testing;

namespace {

const std::string hostile =
  "\x1b]0;title\x07\x1b[31mred\r\ntroupe: all is well";
const std::string printable_text = "?]0;title??[31mred??troupe: all is well";

/// Listens in place of a leader. It rejects workers with a hostile text, or
/// accepts them and aborts the start with a hostile text.
struct hostile_leader {
  explicit hostile_leader(bool takes) {
    endpoint.serve(
      [takes](const net::hello&) {
        net::hello_response x;
        x.accepted = takes;
        x.reason = hostile;
        return x;
      },
      [this](const net::hello&, net::accepted_connection&& x) {
        connection = std::get<std::shared_ptr<net::connection>>(std::move(x));
        connection->open(membership_channel)
          ->post({net::frame_kind::oneway, net::priority::control, 0, 1,
                  net::encode(membership::message_kind::abort, hostile,
                              membership::view{})});
      });
  }

  static net::endpoint_options options() {
    net::endpoint_options x;
    x.listen = net::address{"127.0.0.1", 0};
    return x;
  }

  std::shared_ptr<net::connection> connection;
  net::endpoint endpoint{options()};
};

/// Joins as a worker. @returns the code and the text of the error.
std::pair<std::optional<ec>, std::string>
join_error(const hostile_leader& leader) {
  cluster_fixture processes{2};
  processes.addresses[0] = leader.endpoint.advertised_address();
  processes.join({1});
  return {processes.members[1].code, processes.members[1].problem};
}

} // namespace

TEST(PeerText, OfARejectionIsPrintable) {
  const hostile_leader leader{false};
  const auto [code, problem] = join_error(leader);
  EXPECT_EQ(code, ec::refused);
  EXPECT_EQ(problem, "chief 0 rejected worker 1: "
                       + to_string(leader.endpoint.advertised_address()) + ": "
                       + printable_text);
}

TEST(PeerText, OfALeaderThatAbortsTheStartIsPrintable) {
  const hostile_leader leader{true};
  const auto [code, problem] = join_error(leader);
  EXPECT_EQ(code, ec::stalled);
  EXPECT_EQ(problem, printable_text);
}

TEST(PeerText, OfAReceivedErrorIsPrintable) {
  const auto x = wire::from_wire({ec::invalid, hostile});
  EXPECT_EQ(x.context().get_as<std::string>(0),
            "?]0;title??[31mred?\ntroupe: all is well");
}

TEST(PeerText, OfAStatusIsPrintable) {
  job_status job;
  job.job = hostile;
  job.members.push_back({.name = hostile});
  job.stall_reason = hostile;
  node_info node;
  node.name = node.version = hostile;
  node.devices = node.roles = node.running = {hostile};
  for (const auto& [text, lines, times] :
       {std::tuple{to_text(job), 4, 3}, {to_text(node), 7, 5}}) {
    EXPECT_EQ(std::ranges::count(text, '\n'), lines) << text;
    EXPECT_TRUE(std::ranges::none_of(
      text, [](unsigned char c) { return c != '\n' && (c < ' ' || c == 127); }))
      << text;
    int found = 0;
    for (auto at = text.find(printable_text); at != text.npos;
         at = text.find(printable_text, at + 1))
      ++found;
    EXPECT_EQ(found, times) << text;
  }
}
