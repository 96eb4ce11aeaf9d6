#include "tool.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

// Tests of the tool's output where it quotes text of another process.

namespace {

using namespace troupe;

class PeerText : public tool_test {
protected:
  PeerText() {
    net::endpoint_options options;
    options.listen = net::address{"127.0.0.1", 0};
    peer_.emplace(options);
    peer_->serve(
      [](const net::hello&) {
        net::hello_response no;
        no.accepted = false;
        no.reason = "\x1b]0;title\x07\x1b[31mred\ntroupe: all is well";
        return no;
      },
      [](const net::hello&, net::accepted_connection&&) {});
  }

  std::string address() const { return to_string(peer_->advertised_address()); }

  /// Expects one line without control characters.
  static void is_one_harmless_line(const std::string& err) {
    EXPECT_NE(err.find("?]0;title??[31mred?troupe: all is well"), err.npos)
      << err;
    EXPECT_EQ(std::ranges::count(err, '\n'), 1) << err;
    EXPECT_TRUE(std::ranges::none_of(
      err, [](unsigned char c) { return c != '\n' && c < ' '; }))
      << err;
  }

private:
  std::optional<net::endpoint> peer_;
};

TEST_F(PeerText, OfARejectionIsOneHarmlessLine) {
  const net::reserved_ports mine{1};
  ::setenv("TF_CONFIG",
           (R"({"cluster": {"worker": [")" + address() + R"(", "127.0.0.1:)"
            + std::to_string(mine.numbers().front())
            + R"("]}, "task": {"type": "worker", "index": 1}})")
             .c_str(),
           1);
  const auto done =
    troupe("train --data digits:200 --strategy multi_worker_mirrored");
  ::unsetenv("TF_CONFIG");
  EXPECT_EQ(done.code, 1);
  is_one_harmless_line(done.err);
}

TEST_F(PeerText, OfAStatusQueryIsOneHarmlessLine) {
  const auto done = troupe("status " + address());
  EXPECT_EQ(done.code, 1);
  is_one_harmless_line(done.err);
}

} // namespace
