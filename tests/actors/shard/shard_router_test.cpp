#include "troupe/actors/shard/copy_supervisor.hpp"
#include "troupe/actors/shard/shard_host.hpp"
#include "troupe/actors/shard/shard_router.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/actors/shard/outcome.hpp"
#include "troupe/tests/actors/shard/row_tensors.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Trainings through the router of a worker, with the supervisor of copies and
// the hosts of two shards.

namespace troupe {
namespace {

using namespace std::chrono_literals;
using namespace parameter_server;
using test::floats;
using test::outcome;

using push_outcome = std::shared_ptr<outcome<push_result>>;
using pull_outcome = std::shared_ptr<outcome<pulled, tensors>>;

class ShardRouter : public ::testing::Test {
protected:
  static constexpr consistency asynchronous{consistency_kind::asynchronous, 0,
                                            0};

  void start(std::uint64_t servers, std::uint32_t copies,
             std::chrono::milliseconds timeout = 20s) {
    std::vector<host_link> links;
    std::vector<std::string> addresses;
    for (std::uint64_t i = 1; i <= servers; ++i) {
      hosts[i] = sim.spawn(shard_host, shard_host_config{i, 2, connector()});
      links.push_back({std::to_string(i), i, hosts[i], {}, {}, false});
      addresses.push_back(links.back().address);
    }
    start_router(addresses, copies, timeout);
    supervisor = sim.spawn(
      copy_supervisor,
      copy_supervisor_config{2, copies, links, router, 0ms, connector()});
    sim.advance(500ms, 10ms);
    for (std::uint32_t shard = 0; shard < 2; ++shard) {
      EXPECT_EQ(
        get<std::uint64_t>(shard, new_part{shard, "w", {2}}, floats({1, 2})),
        0u);
      get<std::uint64_t>(shard,
                         new_optimizer{3, "sgd", {"learning_rate"}, {1}});
    }
  }

  void start_router(const std::vector<std::string>& addresses,
                    std::uint32_t copies,
                    std::chrono::milliseconds timeout = 20s) {
    router =
      sim.spawn(shard_router, shard_router_config{7, 2, addresses, connector(),
                                                  timeout, copies, 1s});
  }

  host_connector connector() {
    return [this](const std::string& address, const caf::actor_addr& to) {
      host_link link;
      link.address = address;
      link.server = std::stoull(address);
      if (const auto found = hosts.find(link.server);
          found != hosts.end() && !cut.contains(link.server))
        link.host = found->second;
      link.problem = "it has no such host";
      link.is_refused = restarted.contains(link.server);
      if (const auto receiver = caf::actor_cast<caf::actor>(to))
        caf::anon_send(receiver, std::move(link));
    };
  }

  template <class... Answer, class... Message>
  auto ask(Message... message) {
    return test::outcome_of<Answer...>(sim, router, std::move(message)...);
  }

  template <class Answer, class... Message>
  Answer get(Message... message) {
    const auto out = ask<Answer>(std::move(message)...);
    sim.advance(500ms, 10ms);
    EXPECT_TRUE(out->answer) << out->problem;
    return out->answer ? std::get<0>(*out->answer) : Answer{};
  }

  /// Begins the next training of part s at each shard s.
  void begin(std::uint32_t replicas, const consistency& rule) {
    ++training_number;
    for (std::uint32_t shard = 0; shard < 2; ++shard)
      get<std::uint64_t>(shard, new_training{3},
                         training{training_number, replicas, {{shard, rule}}});
  }

  push_outcome push(std::uint32_t shard, std::uint32_t replica,
                    std::uint64_t step, const std::vector<float>& gradient) {
    return ask<push_result>(
      replica_push{shard, training_number, {replica, step, 0}, 0, {}},
      tensors{floats(gradient)});
  }
  pull_outcome pull(std::uint32_t shard, std::uint32_t replica,
                    std::uint64_t step) {
    return ask<pulled, tensors>(
      replica_pull{shard, training_number, replica, step, {0}, {0}}, tensors{});
  }

  void expect_done(const push_outcome& x) {
    sim.advance(1s, 10ms);
    ASSERT_TRUE(x->answer) << x->problem;
    EXPECT_EQ(std::get<0>(*x->answer), push_result::accepted);
  }
  void expect_value(const pull_outcome& x, const std::vector<float>& value) {
    sim.advance(1s, 10ms);
    ASSERT_TRUE(x->answer) << x->problem;
    EXPECT_TRUE(same_bits(std::get<1>(*x->answer).at(0), floats(value)));
  }

  void lose(std::uint64_t server) {
    caf::anon_send_exit(hosts.extract(server).mapped(), caf::exit_reason::kill);
  }

  simulation::simulator sim;
  std::map<std::uint64_t, shard_host_internal_actor> hosts;
  std::set<std::uint64_t> cut;       ///< Servers that cannot be connected.
  std::set<std::uint64_t> restarted; ///< That have lost their hosts.
  shard_router_internal_actor router;
  copy_supervisor_actor supervisor;
  std::uint64_t training_number = 0;
};

TEST_F(ShardRouter, PushesToAllShards) {
  start(2, 1);
  begin(2, asynchronous);
  expect_value(pull(0, 0, 0), {1, 2});
  for (const std::uint32_t shard : {0, 1})
    for (const std::uint32_t replica : {0, 1})
      expect_done(push(shard, replica, 0, {1, float(shard)}));
  expect_value(pull(0, 0, 1), {-1, 2});
  const auto read = pull(1, 1, 1);
  expect_value(read, {-1, 0});
  EXPECT_EQ(std::get<0>(*read->answer).next_step, 1u);
  EXPECT_EQ(std::get<0>(*read->answer).versions, std::vector<std::uint64_t>{2});
}

TEST_F(ShardRouter, WaitsForOtherReplicasWithoutALimit) {
  start(2, 1, 3s);
  begin(2, {consistency_kind::bounded, 0, 0});
  expect_done(push(0, 0, 0, {1, 0}));
  const auto waits = pull(0, 0, 1);
  sim.advance(100s, 50ms); // beyond the timeout: the shard answers meanwhile
  EXPECT_FALSE(waits->answer);
  EXPECT_EQ(waits->problem, "");
  expect_done(push(0, 1, 0, {0, 1}));
  expect_value(waits, {0, 1});
}

TEST_F(ShardRouter, GoesOnAtABackup) {
  start(3, 2);
  begin(1, asynchronous);
  expect_done(push(0, 0, 0, {1, 0}));
  // Server 1 has the primary of shard 0. What is on its way is sent again.
  const auto held = caf::actor_cast<caf::actor_addr>(hosts.at(1)).id();
  sim.hold([held](caf::actor_id x) { return x == held; });
  const auto first = push(0, 0, 1, {0, 1});
  EXPECT_FALSE(first->answer);
  lose(1);
  sim.hold({});
  const auto second = push(0, 0, 2, {4, 0});
  const auto read = pull(0, 0, 3);
  sim.advance(2s, 10ms);
  expect_done(first);
  expect_done(second);
  expect_value(read, {-4, 1});
  sim.advance(2s, 10ms); // the new backup follows
  lose(2);
  expect_value(pull(0, 0, 3), {-4, 1});
}

TEST_F(ShardRouter, ReportsWhatAShardRejects) {
  start(2, 1);
  begin(1, asynchronous);
  const auto problem_of = [this](const auto& x) {
    sim.advance(1s, 10ms);
    EXPECT_FALSE(x->answer);
    return x->problem;
  };
  EXPECT_NE(problem_of(push(0, 0, 0, {1, 2, 3})).find("float32[3]"),
            std::string::npos);
  EXPECT_NE(problem_of(push(0, 4, 0, {1, 2})).find("no such replica"),
            std::string::npos);
  EXPECT_NE(problem_of(push(0, 0, 999, {1, 2})).find("too far ahead"),
            std::string::npos);
  EXPECT_NE(problem_of(pull(0, 4, 0)).find("unknown replica"),
            std::string::npos);
  EXPECT_NE(problem_of(pull(7, 0, 0)).find("no shard"), std::string::npos);
  begin(1, asynchronous);
  --training_number;
  EXPECT_NE(problem_of(push(0, 0, 0, {1, 2})).find("later training"),
            std::string::npos);
  EXPECT_NE(problem_of(pull(0, 0, 0)).find("later training"),
            std::string::npos);
  ++training_number;
  expect_done(push(0, 0, 0, {1, 2}));
}

TEST_F(ShardRouter, EndsTheRequestsOfAReplicaThatIsReleased) {
  start(2, 1);
  begin(2, {consistency_kind::bounded, 0, 0});
  expect_done(push(0, 0, 0, {1, 0}));
  const auto older = pull(0, 0, 1), newer = pull(0, 0, 1);
  EXPECT_NE(older->problem.find("another pull"), std::string::npos);
  EXPECT_EQ(newer->problem, "");
  caf::anon_send(router, atom::release_v, training_number, std::uint32_t{0});
  sim.run_until_idle();
  EXPECT_NE(newer->problem.find("moved"), std::string::npos);
}

TEST_F(ShardRouter, FailsIfNoCopyAnswers) {
  start(2, 1);
  begin(1, asynchronous);
  expect_value(pull(0, 0, 0), {1, 2});
  // The server lives, but cannot be reached.
  const auto held = caf::actor_cast<caf::actor_addr>(hosts.at(1)).id();
  sim.hold([held](caf::actor_id x) { return x == held; });
  const auto x = push(0, 0, 0, {1, 1});
  const auto other = push(1, 0, 0, {1, 1});
  sim.advance(15s, 50ms);
  EXPECT_TRUE(other->answer);
  EXPECT_EQ(x->problem, "");
  sim.advance(10s, 50ms);
  EXPECT_NE(x->problem.find("no copy has answered within 20000 ms"),
            std::string::npos);
  // The push can be made again. The shard has taken the first one.
  const auto again = push(0, 0, 0, {2, 2});
  sim.hold({});
  sim.advance(20s, 50ms);
  EXPECT_TRUE(again->answer);
  expect_value(pull(0, 0, 1), {0, 1});
}

TEST_F(ShardRouter, FailsIfTheTrainingDoesNotBegin) {
  start(2, 1);
  ++training_number;
  const auto x = push(0, 0, 0, {1, 1});
  sim.advance(15s, 50ms);
  EXPECT_EQ(x->problem, "");
  sim.advance(10s, 50ms);
  EXPECT_NE(x->problem.find("no copy has answered within 20000 ms; connected: "
                            "1, 2"),
            std::string::npos)
    << x->problem;
}

/// A worker that joins may hear from no one that a server is lost.
TEST_F(ShardRouter, FailsIfAServerWasStartedAgain) {
  cut = {1};
  start_router({"1"}, 1);
  const auto x = pull(0, 0, 0);
  restarted = {1};
  sim.advance(200ms, 10ms);
  EXPECT_NE(x->problem.find("parameter server at 1 is lost: it has no such "
                            "host"),
            std::string::npos)
    << x->problem;
}

TEST_F(ShardRouter, FailsIfAServerCannotBeReachedAtTheStart) {
  cut = {1};
  start_router({"1"}, 1);
  const auto x = pull(0, 0, 0);
  sim.advance(500ms, 10ms);
  EXPECT_EQ(x->problem, "");
  sim.advance(1s, 10ms);
  EXPECT_NE(x->problem.find("parameter server at 1: "), std::string::npos)
    << x->problem;
  // With copies, another server can tell where they are.
  start_router({"1"}, 2);
  const auto waits = pull(0, 0, 0);
  sim.advance(2s, 10ms);
  EXPECT_EQ(waits->problem, "");
}

TEST_F(ShardRouter, FailsIfAShardIsLost) {
  start(2, 1);
  begin(2, {consistency_kind::bounded, 0, 0});
  expect_done(push(0, 0, 0, {1, 0}));
  const auto waits = pull(0, 0, 1);
  lose(2);
  sim.advance(1s, 10ms);
  EXPECT_NE(waits->problem.find("parameter server 1 is lost"),
            std::string::npos);
}

} // namespace
} // namespace troupe
