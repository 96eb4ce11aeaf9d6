#include "../support/variable_is.hpp"
#include "client_program.hpp"
#include "tool.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/tests/support/becomes_true.hpp"

#include <gtest/gtest.h>

// Node processes that announce themselves to a client in this process.

namespace {

using namespace troupe;
using troupe::test::becomes_true;

const remote_strategy_options listening{.steps = "small",
                                        .listen = "127.0.0.1:0"};

void expect_spares(const remote_strategy& remote,
                   const std::vector<std::string>& addresses) {
  becomes_true([&] { return remote.spares() == addresses; });
  EXPECT_EQ(remote.spares(), addresses);
}

std::string waits_at(const std::string& client) {
  return "this node waits as a spare of the client at " + client;
}

std::string used_by(const std::string& client) {
  return "the client at " + client
         + " uses this node: it belongs to the job \"small\" in the place of a "
           "lost node";
}

class NodeJoin : public tool_test {
protected:
  std::vector<std::string> tool_node(const std::string& client,
                                     const std::string& words = {}) const {
    std::vector<std::string> command{"/bin/sh", "-c",
                                     "cd " + folder.string()
                                       + " && exec " TROUPE_TOOL " node --join "
                                       + client + " " + words + " 2>&1"};
    return command;
  }
};

/// In a step, in a fit, and between two calls.
TEST_F(NodeJoin, ASpareTakesThePlaceOfAKilledNodeWithTheSameWeights) {
  for (const int in_call : {2, fit_call, -1}) {
    SCOPED_TRACE("call " + std::to_string(in_call));
    node_processes nodes{3};
    runtime actors;
    remote_strategy remote{actors, nodes.addresses, listening};
    const auto spare = nodes.start(remote.listen_address());
    expect_spares(remote, {spare});
    EXPECT_EQ(nodes.processes[3]->line(), waits_at(remote.listen_address()));
    const auto weights = run_program(remote, [&](int call) {
      if (call == 6 && in_call < 0) {
        nodes.processes[1]->signal(SIGKILL);
        EXPECT_EQ(nodes.processes[1]->end(), 128 + SIGKILL);
      }
      if (call == (in_call < 0 ? 7 : in_call + 1)) {
        EXPECT_EQ(remote.workers(), 2u);
      }
      return call == in_call ? signal_of(1, SIGKILL) : no_signal;
    });
    EXPECT_EQ(weights, undisturbed(3));
    EXPECT_EQ(remote.workers(), 3u);
    EXPECT_TRUE(remote.lost_nodes().empty());
    EXPECT_EQ(nodes.processes[3]->line(), used_by(remote.listen_address()));
    if (in_call >= 0) {
      EXPECT_EQ(nodes.processes[1]->end(), 128 + SIGKILL);
    }
  }
}

TEST_F(NodeJoin, OneThatIsStartedAfterTheLossTakesThePlace) {
  node_processes nodes{2};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, listening};
  const auto weights = run_program(remote, [&](int call) {
    if (call == 6) {
      EXPECT_EQ(remote.workers(), 1u);
      expect_spares(remote, {nodes.start(remote.listen_address())});
    }
    return call == 2 ? signal_of(0, SIGKILL) : no_signal;
  });
  EXPECT_EQ(weights, undisturbed(2));
  EXPECT_EQ(remote.workers(), 2u);
}

TEST_F(NodeJoin, TheNextSpareIsUsedIfTheFirstWasKilled) {
  node_processes nodes{3};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, listening};
  const auto first = nodes.start(remote.listen_address());
  expect_spares(remote, {first});
  const auto second = nodes.start(remote.listen_address());
  expect_spares(remote, {first, second});
  nodes.processes[3]->signal(SIGKILL);
  EXPECT_EQ(nodes.processes[3]->end(), 128 + SIGKILL);
  expect_spares(remote, {second});
  const auto weights = run_program(remote, [&](int call) {
    return call == 2 ? signal_of(0, SIGKILL) : no_signal;
  });
  EXPECT_EQ(weights, undisturbed(3));
  EXPECT_EQ(remote.workers(), 3u);
  EXPECT_EQ(nodes.processes[4]->line(), waits_at(remote.listen_address()));
  EXPECT_EQ(nodes.processes[4]->line(), used_by(remote.listen_address()));
}

/// A spare that is stopped sends no heartbeats.
TEST_F(NodeJoin, ASpareThatIsStoppedIsDroppedAndComesBack) {
  node_processes nodes{2};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, listening};
  const auto spare = nodes.start(remote.listen_address());
  expect_spares(remote, {spare});
  nodes.processes[2]->signal(SIGSTOP);
  expect_spares(remote, {});
  nodes.processes[2]->signal(SIGCONT);
  expect_spares(remote, {spare});
  EXPECT_EQ(nodes.processes[2]->line(), waits_at(remote.listen_address()));
  const auto lost = nodes.processes[2]->line();
  EXPECT_NE(lost.find("was lost"), lost.npos) << lost;
}

TEST_F(NodeJoin, ReleasedSparesGoOnAsNodes) {
  node_processes nodes{2};
  runtime actors;
  auto remote =
    std::make_unique<remote_strategy>(actors, nodes.addresses, listening);
  const auto client = remote->listen_address();
  const auto spare = nodes.start(client);
  expect_spares(*remote, {spare});
  EXPECT_EQ(nodes.processes[2]->line(), waits_at(client));
  remote.reset();
  EXPECT_EQ(nodes.processes[2]->line(),
            "the client at " + client
              + " has released this node: the job of the client has ended");
  const auto status = troupe("status " + spare);
  EXPECT_EQ(status.code, 0) << status.err;
}

/// All nodes of the job were started with the address of the client.
TEST_F(NodeJoin, NodesOfTheJobOutliveTheLossOfAnother) {
  const net::reserved_ports ports{1};
  auto options = listening;
  options.listen = "127.0.0.1:" + std::to_string(ports.numbers()[0]);
  node_processes nodes{0};
  for (int i = 0; i < 3; ++i)
    nodes.start(options.listen);
  runtime actors;
  auto remote =
    std::make_unique<remote_strategy>(actors, nodes.addresses, options);
  for (auto& one : nodes.processes)
    EXPECT_EQ(one->line(), waits_at(options.listen));
  const auto weights = run_program(*remote, [&](int call) {
    if (call == 6) {
      EXPECT_EQ(remote->workers(), 2u);
      expect_spares(*remote, {nodes.start(options.listen)});
    }
    return call == 2 ? signal_of(1, SIGKILL) : no_signal;
  });
  EXPECT_EQ(weights, undisturbed(3));
  EXPECT_EQ(remote->workers(), 3u);
  remote.reset();
  for (const std::size_t i : {0, 2})
    EXPECT_EQ(nodes.processes[i]->line(),
              "the client at " + options.listen
                + " has released this node: the job of the client has ended");
  EXPECT_EQ(nodes.processes[3]->line(), waits_at(options.listen));
  EXPECT_EQ(nodes.processes[3]->line(), used_by(options.listen));
}

// -- the command --------------------------------------------------------------

/// The program of `troupe node` registers no steps.
TEST_F(NodeJoin, ToolEndsWithASentenceIfTheClientRefusesIt) {
  node_processes nodes{2};
  runtime actors;
  const remote_strategy remote{actors, nodes.addresses, listening};
  background_process there{tool_node(remote.listen_address())};
  EXPECT_EQ(there.line().rfind("listening on ", 0), 0u);
  const auto said = there.line();
  EXPECT_EQ(said.rfind("troupe: join " + remote.listen_address(), 0), 0u)
    << said;
  EXPECT_NE(said.find("the node has no role \"steps/small\"; it has: "
                      "parameter_server, parameter_server_access"),
            said.npos)
    << said;
  EXPECT_EQ(there.end(), 1);
  EXPECT_TRUE(remote.spares().empty());
}

TEST_F(NodeJoin, ToolEndsWithASentenceIfItsSecretIsWrong) {
  put("other", "open barley\n");
  std::filesystem::permissions(folder / "other",
                               std::filesystem::perms::owner_read);
  const variable_is secret{"TROUPE_SECRET", "open sesame"};
  const node_processes nodes{2};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, listening};
  background_process there{
    tool_node(remote.listen_address(), "--secret-file other")};
  EXPECT_EQ(there.line().rfind("listening on ", 0), 0u);
  const auto said = there.line();
  EXPECT_NE(said.find("its secret is another than that of this process"),
            said.npos)
    << said;
  EXPECT_EQ(there.end(), 1);
  EXPECT_TRUE(remote.spares().empty());
  EXPECT_EQ(run_program(remote, [](int) { return no_signal; }), undisturbed(2));
}

TEST_F(NodeJoin, ToolEndsWithASentenceIfNoClientAnswers) {
  const net::reserved_ports ports{1};
  const auto client = "127.0.0.1:" + std::to_string(ports.numbers()[0]);
  background_process there{tool_node(client, "--join-timeout 1")};
  EXPECT_EQ(there.line().rfind("listening on ", 0), 0u);
  const auto said = there.line();
  EXPECT_NE(said.find("join " + client
                      + ": no client has accepted this node within "
                        "join_timeout, 1000 ms"),
            said.npos)
    << said;
  EXPECT_EQ(there.end(), 1);
}

TEST_F(NodeJoin, ToolRejectsInvalidOptions) {
  expect_rejected("node --join here", 2, {"--join", "here"});
  expect_rejected("node --join 127.0.0.1:1 --join-timeout 0", 2,
                  {"--join-timeout 0:", "from 1 to"});
  expect_rejected("node --join-timeout 5", 2, {"--join-timeout", "--join"});
  expect_rejected("node --join 127.0.0.1:1 --advertise 0.0.0.0:4100", 2,
                  {"0.0.0.0:4100", "advertise"});
}

} // namespace
