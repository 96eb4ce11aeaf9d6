#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <algorithm>
#include <tuple>

// Texts from another process are shown with printable characters only.

using namespace troupe;
using namespace troupe::testing;

namespace {

const std::string hostile =
  "\x1b]0;title\x07\x1b[31mred\r\ntroupe: all is well";
const std::string shown = "?]0;title??[31mred??troupe: all is well";

/// Listens in place of the leader of a job, and sends hostile texts.
struct impostor {
  explicit impostor(bool takes) {
    it.on_dialed(
      [takes](const net::hello&) {
        net::verdict x;
        x.taken = takes;
        x.why = hostile;
        return x;
      },
      [this](const net::hello&, net::arrived&& x) {
        wire = std::get<std::shared_ptr<net::connection>>(std::move(x));
        wire->open(membership_channel)
          ->post({net::frame_kind::fact, net::priority::control, 0, 1,
                  net::encode(word::give_up, hostile, roster::table{})});
      });
  }

  static net::endpoint_options options() {
    net::endpoint_options x;
    x.listen = net::address{"127.0.0.1", 0};
    return x;
  }

  std::shared_ptr<net::connection> wire;
  net::endpoint it{options()};
};

/// Joins as a worker. @returns the error.
std::pair<std::optional<ec>, std::string> joined(const impostor& leader) {
  company_of all{2};
  all.addresses[0] = leader.it.reachable_at();
  all.join({1});
  return {all.members[1].code, all.members[1].problem};
}

} // namespace

TEST(PeerText, OfARejectionIsPrintable) {
  const impostor leader{false};
  const auto [code, problem] = joined(leader);
  EXPECT_EQ(code, ec::refused);
  EXPECT_EQ(problem, "chief 0 refused worker 1: "
                       + to_string(leader.it.reachable_at()) + ": " + shown);
}

TEST(PeerText, OfALeaderThatAbortsTheStartIsPrintable) {
  const impostor leader{true};
  const auto [code, problem] = joined(leader);
  EXPECT_EQ(code, ec::stalled);
  EXPECT_EQ(problem, shown);
}

TEST(PeerText, OfAReceivedErrorIsPrintable) {
  const auto x = wire::error_of({ec::invalid, hostile});
  EXPECT_EQ(x.context().get_as<std::string>(0),
            "?]0;title??[31mred?\ntroupe: all is well");
}

TEST(PeerText, OfAStatusIsPrintable) {
  job_status job;
  job.job = hostile;
  job.members.push_back({.name = hostile});
  job.waiting = hostile;
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
    for (auto at = text.find(shown); at != text.npos;
         at = text.find(shown, at + 1))
      ++found;
    EXPECT_EQ(found, times) << text;
  }
}
