#include "background.hpp"
#include "tool.hpp"
#include "troupe/actors/node/remote_node.hpp"

#include <caf/scoped_actor.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

/// The interface of the role in apps/examples/embed.cpp. The names may differ,
/// but the messages must be equal.
using greeter_actor =
  caf::typed_actor<caf::replies_to<std::string>::with<std::string>>;

const std::vector<std::string> example{std::string{TROUPE_EXAMPLES}
                                       + "/example_embed"};

/// A node process, and the address from the first line of its output.
struct node_process : background_process {
  explicit node_process(const std::vector<std::string>& command)
    : background_process{command} {
    const std::string says = "listening on ";
    const auto first = line();
    EXPECT_EQ(first.rfind(says, 0), 0u) << first;
    address = first.substr(std::min(says.size(), first.size()));
  }

  std::string address;
};

std::vector<std::string> tool_node() {
  return {TROUPE_TOOL, "node", "--listen", "127.0.0.1:0"};
}

/// Sends a signal to a node's process.
/// @returns the exit reason that a monitor of a role on that node receives.
std::string exit_reason_after(int signal) {
  node_process process{example};
  runtime actors;
  remote_node node{
    actors, process.address, {.connection = {.heartbeat_timeout = 500ms}}};
  const auto role = node.spawn<greeter_actor>("greeter", "Hi");
  std::string reason;
  {
    caf::scoped_actor self{actors.system()};
    self->monitor(role);
    process.signal(signal);
    self->receive(
      [&](const caf::down_msg& x) {
        reason = actors.system().render(x.reason);
      },
      caf::after(60s) >> [&] { reason = "nothing"; });
    self->request(role, 60s, std::string{"you"})
      .receive([](const std::string& text) { ADD_FAILURE() << text; },
               [](const caf::error&) {});
  }
  release_caf_logger();
  return reason;
}

class Node : public tool_test {};

TEST_F(Node, IsLostIfKilledAndUnreachableIfStopped) {
  const auto killed = exit_reason_after(SIGKILL);
  EXPECT_EQ(killed.rfind("peer_lost(", 0), 0u) << killed;
  const auto stopped = exit_reason_after(SIGSTOP);
  EXPECT_EQ(stopped.rfind("unreachable(", 0), 0u) << stopped;
}

TEST_F(Node, EndsWithCodeZeroOnASignalAndOnRequest) {
  for (const auto number : {SIGINT, SIGTERM}) {
    node_process there{tool_node()};
    there.signal(number);
    EXPECT_EQ(there.end(), 0);
  }
  node_process there{tool_node()};
  runtime here;
  remote_node node{here, there.address};
  node.stop();
  EXPECT_EQ(there.end(), 0);
}

TEST_F(Node, ShowsItsStatus) {
  node_process there{example};
  const auto done = troupe("status " + there.address);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out.rfind("node     node, incarnation ", 0), 0u) << done.out;
  EXPECT_NE(done.out.find("\nroles    greeter, steps/sums\nrunning  none\n"),
            std::string::npos)
    << done.out;
}

TEST_F(Node, RequiresTheSecretOfItsFile) {
  put("secret", "open sesame\n");
  put("other", "open barley\n");
  for (const auto* file : {"secret", "other"})
    std::filesystem::permissions(folder / file,
                                 std::filesystem::perms::owner_read);
  auto command = tool_node();
  command.insert(command.end(),
                 {"--secret-file", (folder / "secret").string()});
  node_process there{command};
  const auto good = troupe("status " + there.address + " --secret-file secret");
  EXPECT_EQ(good.code, 0) << good.err;
  for (const std::string bad : {"", " --secret-file other"}) {
    // ends long before its timeout, which exceeds that of the test
    const auto done =
      troupe("status " + there.address + " --timeout 3600" + bad);
    EXPECT_EQ(done.code, 1);
    for (const std::string said :
         {bad.empty() ? "it requires a secret, but none is set here"
                      : "its secret is another than that of this process",
          "give both processes the same secret", "--secret-file"})
      EXPECT_NE(done.err.find(said), done.err.npos) << done.err;
  }
}

TEST_F(Node, RejectsInvalidOptions) {
  expect_rejected("node --listen here", 2, {"--listen", "here"});
  expect_rejected("node --listen 0.0.0.0:0", 2, {"0.0.0.0:0"});
  expect_rejected("node --ports many", 2, {"--ports", "many"});
  expect_rejected("node --listen 127.0.0.1:9000 --ports 8000", 2,
                  {"--ports 8000", "9000 or higher"});
  expect_rejected("status 127.0.0.1:1 --tls-ca a --tls-cert a --tls-key a", 2,
                  {"the authority in 'a'", "No such file"});
  expect_rejected("node --tls-ca a.pem", 2,
                  {"--tls-ca, --tls-cert and --tls-key"});
  expect_rejected("node --secret-file none", 1, {"none"});
  expect_rejected("status", 2, {"ADDRESS"});
  expect_rejected("status nowhere", 2, {"nowhere"});
  expect_rejected("status 127.0.0.1:1 --timeout 0", 2,
                  {"--timeout 0:", "from 1 to"});
}

TEST_F(Node, TimeoutOfAStatusQueryHasAHiddenOldName) {
  expect_rejected("status 127.0.0.1:1 --patience 0", 2,
                  {"--patience 0:", "from 1 to"});
  expect_rejected("status 127.0.0.1:1 --timeout 1 --patience 1", 2,
                  {"--patience", "--timeout"});
  const auto help = troupe("status --help").out;
  EXPECT_NE(help.find("--timeout"), help.npos) << help;
  EXPECT_EQ(help.find("--patience"), help.npos) << help;
}

TEST_F(Node, ServesTheEmbeddingExampleOfAtMost30Lines) {
  node_process one{example}, other{example};
  const auto done = run_child({example.front(), one.address, other.address});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "mean 3\nHello, world\n"); // 1 + 0 and 1 + 1
  std::ifstream source{TROUPE_SOURCE_DIR "/apps/examples/embed.cpp"};
  int lines = 0;
  for (std::string line; std::getline(source, line);)
    lines += !line.empty() && line.rfind("//", 0) != 0;
  EXPECT_LE(lines, 30);
}

} // namespace
