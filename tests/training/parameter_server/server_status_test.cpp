#include "server_nodes.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/protocol/server_status_actor.hpp"
#include "troupe/training/parameter_server/server_status.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

// What a process shows of its parameter servers. The query goes through a node
// over real sockets.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

TEST(ServerStatus, IsThatOfTheLastStrategyOfARuntime) {
  runtime actors;
  const node_server node{actors,
                         {.connection = {.credentials = net::credentials{}}}};
  runtime asking;
  const auto servers_shown = [&] {
    remote_node to{asking, node.address(), test::without_secret()};
    return ask<servers_summary>(
             asking.system(), "status",
             to.spawn<server_status_actor>(server_status_role), 10s,
             atom::status_v)
      .servers;
  };
  std::optional<parameter_server_strategy> first;
  first.emplace(actors, parameter_server_options{.servers = 1});
  register_server_status(*first);
  EXPECT_EQ(servers_shown().size(), 1u);
  first.reset();
  ASSERT_EQ(servers_shown().size(), 1u);
  EXPECT_EQ(servers_shown()[0].responds, 0);

  const parameter_server_strategy second{actors, {.servers = 2}};
  register_server_status(second);
  const auto found = servers_shown();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].responds, 1);
  EXPECT_EQ(found[1].responds, 1);
}

} // namespace
