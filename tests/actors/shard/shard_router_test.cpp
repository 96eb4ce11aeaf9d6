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
#include <stdexcept>
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
  const auto release = [this](const coordinator::execution& by) {
    caf::anon_send(router, atom::release_v, training_number, std::uint32_t{0},
                   by);
    sim.run_until_idle();
  };
  release({0, 1});
  EXPECT_NE(newer->problem.find("moved"), std::string::npos);
  // The execution that was begun last has the replica.
  const auto of_attempt = [this](std::uint32_t attempt) {
    return ask<pulled, tensors>(
      replica_pull{0, training_number, 0, 1, {0}, {0}, {3, attempt}},
      tensors{});
  };
  const auto first = of_attempt(1), second = of_attempt(2);
  EXPECT_NE(first->problem.find("moved"), std::string::npos);
  EXPECT_NE(of_attempt(1)->problem.find("moved"), std::string::npos);
  release({3, 1});
  EXPECT_EQ(second->problem, "");
  release({3, 2});
  EXPECT_NE(second->problem.find("moved"), std::string::npos);
}

TEST_F(ShardRouter, LetsALaterExecutionTakeOverAPush) {
  start(2, 1);
  begin(1, asynchronous);
  const auto held = caf::actor_cast<caf::actor_addr>(hosts.at(1)).id();
  sim.hold([held](caf::actor_id x) { return x == held; });
  const auto push_of = [this](std::uint32_t attempt) {
    return ask<push_result>(
      replica_push{0, training_number, {0, 0, 0}, 0, {}, {3, attempt}},
      tensors{floats({1, 0})});
  };
  const auto first = push_of(1), second = push_of(2);
  EXPECT_NE(first->problem.find("moved"), std::string::npos);
  sim.hold({});
  expect_done(second);
  // It counts once.
  expect_value(
    ask<pulled, tensors>(
      replica_pull{0, training_number, 0, 1, {0}, {0}, {3, 2}}, tensors{}),
    {0, 2});
}

TEST_F(ShardRouter, DecidesTheStepsOfATraining) {
  start(3, 2);
  begin(2, {consistency_kind::synchronous, 0, 1});
  std::vector<std::uint64_t> decided;
  lead_training what{training_number, 2, 1, 1};
  what.factors = [](std::uint64_t step, const std::vector<std::uint32_t>& of) {
    EXPECT_EQ(of, std::vector<std::uint32_t>{step == 0 ? 1u : 0u});
    return update_factors{false, 0, step == 0 ? 0.5F : 2};
  };
  what.on_decided = [&](std::uint64_t steps) { decided.push_back(steps); };
  caf::anon_send(router, contributed{1, 0, training_number});
  const auto led = ask<std::uint64_t>(what);
  const auto contribute = [this](std::uint32_t replica, std::uint64_t step) {
    for (const std::uint32_t shard : {0, 1})
      expect_done(push(shard, replica, step, {2, 4}));
    caf::anon_send(router, contributed{replica, step + 1, training_number});
  };
  contribute(1, 0);
  expect_value(pull(0, 1, 1), {0, 0});
  EXPECT_EQ(decided, std::vector<std::uint64_t>{1});
  // Server 1 has the primary of shard 0.
  lose(1);
  contribute(0, 1);
  for (const std::uint32_t shard : {0, 1})
    expect_value(pull(shard, 0, 2), {-4, -8});
  EXPECT_EQ(decided, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_FALSE(led->answer);
  caf::anon_send(router, atom::stop_v, training_number);
  sim.run_until_idle();
  ASSERT_TRUE(led->answer);
  EXPECT_EQ(std::get<0>(*led->answer), 2u);
}

TEST_F(ShardRouter, EndsAChiefThatALaterOneSupersedes) {
  start(2, 1);
  begin(1, {consistency_kind::synchronous, 0, 0});
  lead_training what{training_number, 1, 0, 8};
  what.factors = [](std::uint64_t, const std::vector<std::uint32_t>&) {
    return update_factors{};
  };
  // The other one has another router.
  const auto other = std::exchange(router, {});
  start_router({"1", "2"}, 1);
  const auto later = ask<std::uint64_t>(what);
  sim.advance(1s, 10ms);
  what.chief = 7;
  router = other;
  const auto earlier = ask<std::uint64_t>(what);
  sim.advance(1s, 10ms);
  EXPECT_NE(earlier->problem.find("another process is the chief"),
            std::string::npos);
  EXPECT_EQ(later->problem, "");
  // The same on the router of the later one, which stays.
  start_router({"1", "2"}, 1);
  what.chief = 9;
  const auto last = ask<std::uint64_t>(what);
  what.chief = 8;
  EXPECT_NE(ask<std::uint64_t>(what)->problem.find("a later chief"),
            std::string::npos);
  EXPECT_EQ(last->problem, "");
  what.chief = 0;
  EXPECT_NE(ask<std::uint64_t>(what)->problem.find("chief 0"),
            std::string::npos);
  what.chief = 10;
  what.backup_workers = 1;
  EXPECT_NE(ask<std::uint64_t>(what)->problem, "");
}

TEST_F(ShardRouter, GivesALaterChiefTheReportsOfTheReplicas) {
  start(2, 1);
  begin(1, {consistency_kind::synchronous, 0, 0});
  for (const std::uint32_t shard : {0, 1})
    expect_done(push(shard, 0, 0, {1, 1}));
  caf::anon_send(router, contributed{0, 1, training_number});
  lead_training what{training_number, 1, 0, 1};
  what.factors = [](std::uint64_t,
                    const std::vector<std::uint32_t>&) -> update_factors {
    throw std::runtime_error("the schedule has ended");
  };
  const auto fails = ask<std::uint64_t>(what);
  sim.advance(1s, 10ms);
  EXPECT_NE(fails->problem.find("the schedule has ended"), std::string::npos);
  what.chief = 2;
  what.factors = [](std::uint64_t, const std::vector<std::uint32_t>&) {
    return update_factors{};
  };
  const auto led = ask<std::uint64_t>(what);
  expect_value(pull(0, 0, 1), {0, 1});
  EXPECT_EQ(led->problem, "");
  begin(1, asynchronous); // in place of the one before
  --training_number;
  what.training = training_number;
  what.chief = 3;
  const auto late = ask<std::uint64_t>(what);
  sim.advance(1s, 10ms);
  EXPECT_NE(late->problem.find("later training"), std::string::npos);
  caf::anon_send_exit(router, caf::exit_reason::kill);
  sim.run_until_idle();
}

TEST_F(ShardRouter, EndsAChiefThatNoCopyAnswers) {
  start(2, 1, 3s);
  begin(1, {consistency_kind::synchronous, 0, 0});
  lead_training what{training_number, 1, 0, 1};
  what.factors = [](std::uint64_t, const std::vector<std::uint32_t>&) {
    return update_factors{true, -1, 1};
  };
  const auto waits = ask<std::uint64_t>(what);
  sim.advance(100s, 50ms); // it waits for a replica, not for a shard
  EXPECT_EQ(waits->problem, "");
  for (const std::uint32_t shard : {0, 1})
    expect_done(push(shard, 0, 0, {1, 1}));
  caf::anon_send(router, contributed{0, 1, training_number});
  sim.advance(1s, 10ms);
  EXPECT_NE(waits->problem.find("the learning rate -1"), std::string::npos);
  const auto held = caf::actor_cast<caf::actor_addr>(hosts.at(1)).id();
  sim.hold([held](caf::actor_id x) { return x == held; });
  what.chief = 2;
  const auto late = ask<std::uint64_t>(what);
  sim.advance(5s, 50ms);
  EXPECT_NE(late->problem.find("no copy has answered"), std::string::npos);
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
