#include "troupe/actors/shard/request_body.hpp"
#include "troupe/actors/shard/shard_host.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/strategies/parameter_server/consistency.hpp"
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
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Trainings on shard hosts. Jobs of the protocol under random faults are in
// tests/strategies/parameter_server/random_jobs_test.cpp.

namespace troupe {
namespace {

using namespace std::chrono_literals;
using namespace parameter_server;
using kind = shard_request_kind;

constexpr consistency asynchronous{consistency_kind::asynchronous, 0, 0};
constexpr consistency synchronous{consistency_kind::synchronous, 0, 0};

using test::floats;
using test::numbers;
using test::outcome;

/// Hosts 1 to n of one shard, each with a copy of it. Host 1 has the primary.
class ShardHost : public ::testing::Test {
protected:
  void start(std::uint64_t servers, std::uint64_t max_bytes = 0) {
    for (std::uint64_t i = 1; i <= servers; ++i) {
      hosts[i] = sim.spawn(
        shard_host,
        shard_host_config{
          i, 1,
          [this](const std::string& address, const caf::actor_addr& to) {
            host_link link{address, std::stoull(address), {}, {}, {}, false};
            link.host = hosts[link.server];
            if (const auto receiver = caf::actor_cast<caf::actor>(to))
              caf::anon_send(receiver, std::move(link));
          },
          max_bytes});
      backups.push_back(i);
    }
    backups.erase(backups.begin());
    enter();
  }

  /// All hosts enter the next view.
  void enter(std::uint64_t primary = 1) {
    ++view.view_id;
    if (view.primary != primary) {
      view.previous_term = std::exchange(view.term, view.view_id);
      view.primary = primary;
      std::erase(backups, primary);
    }
    view.backups = backups;
    copy_table table{view.view_id, {view}, {}};
    for (const auto& [server, unused] : hosts)
      table.servers.push_back({server, std::to_string(server)});
    for (const auto& [server, host] : hosts)
      if (host)
        get<copy_report>(host, table, view.view_id);
    sim.advance(500ms, 10ms);
  }

  void lose(std::uint64_t server) {
    caf::anon_send_exit(hosts.at(server), caf::exit_reason::kill);
    hosts.erase(server);
    sim.advance(100ms, 10ms);
  }

  /// Sends a message, and reads the answer when there is one.
  template <class... Answer, class... Message>
  auto ask(const shard_host_internal_actor& to, Message... message) {
    return test::outcome_of<Answer...>(sim, to, std::move(message)...);
  }

  template <class Answer, class... Message>
  Answer get(const shard_host_internal_actor& to, Message... message) {
    const auto out = ask<Answer>(to, std::move(message)...);
    EXPECT_TRUE(out->answer) << out->problem;
    return out->answer ? std::get<0>(*out->answer) : Answer{};
  }

  const shard_host_internal_actor& primary() { return hosts.at(view.primary); }

  template <class T>
  shard_answer command(kind what, const T& body, tensors operands = {},
                       std::vector<training> begins = {}) {
    shard_request request{0, {{7, next}, next}, what, encode_body(body)};
    request.command.begins = std::move(begins);
    ++next;
    const auto out = ask<shard_answer, tensors>(primary(), std::move(request),
                                                std::move(operands));
    sim.advance(200ms, 10ms); // the backups answer
    EXPECT_TRUE(out->answer);
    return out->answer ? std::get<0>(*out->answer) : shard_answer{};
  }

  /// Makes part 4, [2], part 9, a table of 10 rows of 2 elements that are 1,
  /// and optimizer 3: sgd with learning rate 1.
  void make_parts() {
    EXPECT_EQ(
      command(kind::new_part, new_part{4, "w", {2}}, {floats({1, 2})}).outcome,
      shard_outcome::done);
    new_part table{9, "t", {10, 2}};
    table.is_table = true;
    table.table = {.initializer = "ones"};
    EXPECT_EQ(command(kind::new_part, table, {tensor::zeros({0})}).problem, "");
    EXPECT_EQ(command(kind::new_optimizer,
                      new_optimizer{3, "sgd", {"learning_rate"}, {1}})
                .problem,
              "");
  }

  shard_answer begin(std::uint32_t replicas, const consistency& rule,
                     std::vector<std::uint64_t> parts = {4, 9}) {
    training made{++training_number, replicas, {}};
    for (const auto part : parts)
      made.parts.push_back({part, rule});
    return command(kind::begin, new_training{3}, {}, {made});
  }

  auto push(const push_id& id, tensors gradient, std::uint64_t read_version = 0,
            const update_factors& factors = {}) {
    return ask<shard_pushed>(
      primary(),
      shard_push{
        0, 70, {view.view_id, id, read_version, training_number, factors}},
      std::move(gradient));
  }
  push_result result_of(const std::shared_ptr<outcome<shard_pushed>>& x) {
    sim.advance(200ms, 10ms);
    EXPECT_TRUE(x->answer) << x->problem;
    return x->answer && std::get<0>(*x->answer).pushed.view_id != 0
             ? std::get<0>(*x->answer).pushed.result
             : push_result::stale_view;
  }

  auto pull(std::uint32_t replica, std::uint64_t step,
            const tensor& rows = numbers({3})) {
    return ask<pulled, tensors>(
      primary(),
      shard_pull{
        0,
        70,
        {view.view_id, ++pull_number, replica, step, {0, 1}, training_number},
        {0, 1}},
      tensors{rows});
  }
  /// Returns the values that a pull has got: of part 4, and of row 3 of part 9.
  tensors values(const std::shared_ptr<outcome<pulled, tensors>>& x) {
    EXPECT_TRUE(x->answer && std::get<0>(*x->answer).view_id != 0);
    return x->answer ? std::get<1>(*x->answer) : tensors{};
  }
  void expect_values(std::uint32_t replica, std::uint64_t step,
                     const std::vector<float>& w,
                     const std::vector<float>& row) {
    const auto read = values(pull(replica, step));
    ASSERT_EQ(read.size(), 2u);
    EXPECT_TRUE(same_bits(read[0], floats(w)));
    EXPECT_TRUE(same_bits(read[1], tensor::of<float>({1, 2}, row)));
  }

  auto decide(std::uint64_t step, std::vector<std::uint32_t> contributors,
              const update_factors& factors) {
    ask<last_decision>(
      primary(), shard_decision_query{0, {view.view_id, training_number, 1}});
    sim.advance(200ms, 10ms);
    return ask<decided>(
      primary(), shard_decision{0,
                                {view.view_id, step, std::move(contributors),
                                 training_number, 1, factors}});
  }

  simulation::simulator sim;
  std::map<std::uint64_t, shard_host_internal_actor> hosts;
  std::vector<std::uint64_t> backups;
  shard_copies view;
  std::uint64_t next = 0, pull_number = 0, training_number = 0;
};

tensors row_of_table(std::int64_t row, const std::vector<float>& xs) {
  return {numbers({row}), tensor::of<float>({1, 2}, xs)};
}

TEST_F(ShardHost, AppliesAPushAtOnce) {
  start(1);
  make_parts();
  EXPECT_EQ(begin(2, asynchronous).problem, "");
  expect_values(0, 0, {1, 2}, {1, 1});
  EXPECT_EQ(result_of(push({0, 0, 0}, {floats({1, -1})})),
            push_result::accepted);
  // The push says the learning rate and the factor of its gradient.
  EXPECT_EQ(
    result_of(push({1, 0, 1}, row_of_table(3, {1, 2}), 0, {true, 0.5F, 0.25F})),
    push_result::accepted);
  EXPECT_EQ(result_of(push({0, 0, 1}, {})), push_result::accepted);
  expect_values(0, 1, {0, 3}, {0.875F, 0.75F});
  EXPECT_EQ(result_of(push({0, 0, 0}, {floats({5, 5})})),
            push_result::repeated);
  expect_values(0, 1, {0, 3}, {0.875F, 0.75F});
}

TEST_F(ShardHost, AnswersAPullWhenTheReplicaMayRead) {
  start(1);
  make_parts();
  begin(2, {consistency_kind::bounded, 0, 0});
  result_of(push({0, 0, 0}, {floats({1, 0})}));
  result_of(push({0, 0, 1}, {}));
  const auto waits = pull(0, 1);
  EXPECT_FALSE(waits->answer);
  result_of(push({1, 0, 0}, {floats({0, 1})}));
  EXPECT_FALSE(waits->answer);
  result_of(push({1, 0, 1}, {}));
  EXPECT_TRUE(same_bits(values(waits)[0], floats({0, 1})));
  EXPECT_EQ(std::get<0>(*waits->answer).next_step, 1u);
}

TEST_F(ShardHost, AddsTheContributionsThatADecisionNames) {
  start(1);
  make_parts();
  begin(3, {consistency_kind::synchronous, 0, 1});
  for (const std::uint32_t replica : {2, 0, 1}) {
    const auto x = float(replica + 1);
    EXPECT_EQ(result_of(push({replica, 0, 0}, {floats({x, 10 * x})})),
              push_result::accepted);
    EXPECT_EQ(
      result_of(push({replica, 0, 1}, row_of_table(3 + replica % 2, {x, x}))),
      push_result::accepted);
  }
  const auto waits = pull(0, 1);
  EXPECT_FALSE(waits->answer);
  const auto done = decide(0, {0, 2}, {true, 2, 0.5F});
  ASSERT_TRUE(done->answer);
  EXPECT_EQ(std::get<0>(*done->answer).view_id, view.view_id);
  // 1 and 3 count, with factor 0.5 and learning rate 2.
  EXPECT_TRUE(same_bits(values(waits)[0], floats({-3, -38})));
  EXPECT_TRUE(same_bits(values(waits)[1], tensor::of<float>({1, 2}, {-3, -3})));
  const auto other = values(pull(1, 1, numbers({4})));
  EXPECT_TRUE(same_bits(other[1], tensor::of<float>({1, 2}, {1, 1})));
  EXPECT_EQ(result_of(push({1, 0, 0}, {floats({1, 1})})), push_result::decided);
  // A step without gradients counts, and changes nothing.
  for (const std::uint32_t replica : {0, 1})
    for (const std::uint32_t part : {0, 1})
      result_of(push({replica, 1, part}, {}));
  EXPECT_TRUE(decide(1, {0, 1}, {})->answer);
  expect_values(2, 2, {-3, -38}, {-3, -3});
}

TEST_F(ShardHost, AddsGradientsOfRowsInAnyOrder) {
  start(2);
  make_parts();
  begin(2, synchronous);
  const auto rows = [](std::vector<std::int64_t> which,
                       const std::vector<float>& xs) {
    return tensors{numbers(which), tensor::of<float>({3, 2}, xs)};
  };
  result_of(push({0, 0, 1}, rows({5, 3, 5}, {1, 1, 2, 2, 4, 4})));
  result_of(push({1, 0, 1}, rows({3, 9, 3}, {8, 8, 16, 16, 32, 32})));
  // One replica has a gradient of all elements, the other one of some.
  result_of(push({0, 0, 0}, {floats({1, 2})}));
  result_of(push({1, 0, 0}, {numbers({1}), floats({4})}));
  const auto done = decide(0, {0, 1}, {});
  sim.advance(200ms, 10ms);
  ASSERT_TRUE(done->answer) << done->problem;
  EXPECT_EQ(std::get<0>(*done->answer).view_id, view.view_id);
  expect_values(0, 1, {0, -4}, {-41, -41});
  const auto others = values(pull(1, 1, numbers({5, 9})));
  EXPECT_TRUE(
    same_bits(others[1], tensor::of<float>({2, 2}, {-4, -4, -15, -15})));
  lose(1);
  enter(2);
  expect_values(0, 1, {0, -4}, {-41, -41});
}

TEST_F(ShardHost, TellsTheChiefTheLastDecision) {
  start(1);
  make_parts();
  begin(1, synchronous, {4});
  const auto ask_last = [this] {
    return get<last_decision>(
      primary(), shard_decision_query{0, {view.view_id, training_number, 1}});
  };
  EXPECT_EQ(ask_last().view_id, view.view_id);
  EXPECT_TRUE(ask_last().decided.empty());
  result_of(push({0, 0, 0}, {floats({1, 1})}));
  EXPECT_TRUE(decide(0, {0}, {})->answer);
  ASSERT_EQ(ask_last().decided.size(), 1u);
  EXPECT_EQ(ask_last().decided[0].step, 0u);
  ++training_number; // it has not begun
  EXPECT_EQ(ask_last().view_id, 0u);
}

TEST_F(ShardHost, SaysThatItServes) {
  start(1);
  const auto accept = [this](std::uint64_t view_id) {
    return ask<serving>(primary(), shard_accepted{0, {view_id, 70}});
  };
  EXPECT_EQ(std::get<0>(*accept(view.view_id)->answer).view_id, view.view_id);
  EXPECT_EQ(std::get<0>(*accept(view.view_id + 1)->answer).view_id, 0u);
}

TEST_F(ShardHost, AnswersWhenThereIsAnotherTable) {
  start(1);
  const auto next = [this](std::uint64_t version) {
    return ask<copy_table>(primary(), atom::next_v, version);
  };
  EXPECT_TRUE(next(view.view_id - 1)->answer);
  const auto waits = next(view.view_id);
  sim.advance(4s, 10ms);
  EXPECT_FALSE(waits->answer);
  sim.advance(2s, 10ms); // the client asks again
  ASSERT_TRUE(waits->answer);
  EXPECT_EQ(std::get<0>(*waits->answer).version, view.view_id);
  const auto last = next(view.view_id);
  enter();
  ASSERT_TRUE(last->answer);
  EXPECT_EQ(std::get<0>(*last->answer).version, view.view_id);
}

TEST_F(ShardHost, RejectsAGradientThatDoesNotFit) {
  start(1, 100);
  make_parts();
  begin(1, asynchronous);
  const auto problem_of = [this](const push_id& id, tensors gradient,
                                 const update_factors& factors = {}) {
    const auto x = push(id, std::move(gradient), 0, factors);
    EXPECT_EQ(result_of(x), push_result::unfit_gradient);
    return std::get<0>(*x->answer).problem;
  };
  EXPECT_EQ(problem_of({0, 0, 0}, {floats({1, 2, 3})}),
            "apply: the variable is float32[2], the value float32[3]");
  EXPECT_NE(problem_of({0, 0, 1}, row_of_table(10, {1, 1})).find("row 10"),
            std::string::npos);
  EXPECT_NE(problem_of({0, 0, 1}, {tensor::zeros({10, 2})}), "");
  EXPECT_NE(problem_of({0, 0, 0}, {floats({1}), floats({1}), floats({1})}), "");
  EXPECT_NE(problem_of({0, 0, 0}, {floats({1, 2})}, {true, -1, 1}), "");
  std::vector<std::int64_t> rows(10);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = std::int64_t(i);
  EXPECT_NE(problem_of({0, 0, 1}, {numbers(rows), tensor::zeros({10, 2})})
              .find("its limit is 100"),
            std::string::npos);
  // Nothing has changed, and the step can still be pushed.
  expect_values(0, 0, {1, 2}, {1, 1});
  EXPECT_EQ(result_of(push({0, 0, 0}, {floats({0, 1})})),
            push_result::accepted);
}

TEST_F(ShardHost, BeginsNoTrainingOfWhatItLacks) {
  start(1);
  make_parts();
  command(kind::new_part, new_part{5, "n", {1}}, {numbers({1})});
  EXPECT_EQ(begin(1, asynchronous, {4, 6}).problem,
            "there is no part 6; its variable was perhaps removed");
  EXPECT_NE(begin(1, asynchronous, {5}).problem.find("dtype"),
            std::string::npos);
  EXPECT_EQ(
    command(kind::begin, new_training{8}, {}, {training{9, 1, {}}}).problem,
    "there is no optimizer 8");
  training_number = 9;
  EXPECT_EQ(begin(1, asynchronous, {4}).outcome, shard_outcome::done);
  // A part that is trained stays until the training ends.
  EXPECT_EQ(command(kind::remove, removal{{4}, {}}).problem,
            "part 4 is trained");
  EXPECT_EQ(command(kind::remove, removal{{}, {3}}).problem,
            "optimizer 3 is used");
  EXPECT_EQ(begin(0, asynchronous, {}).outcome, shard_outcome::done);
  EXPECT_EQ(command(kind::remove, removal{{4}, {}}).outcome,
            shard_outcome::done);
  // Only a command of this kind begins a training.
  EXPECT_EQ(
    command(kind::change, change_list{}, {}, {training{99, 1, {}}}).outcome,
    shard_outcome::invalid);
}

TEST_F(ShardHost, IgnoresWhatItCannotAnswer) {
  start(1);
  make_parts();
  begin(1, synchronous, {4});
  const auto view_of = [](const auto& x) {
    return x->answer ? std::get<0>(*x->answer).view_id : ~std::uint64_t{0};
  };
  ++training_number; // it has not begun
  const auto early = push({0, 0, 0}, {floats({1, 1})});
  EXPECT_EQ(std::get<0>(*early->answer).pushed.view_id, 0u);
  EXPECT_EQ(view_of(decide(0, {0}, {})), 0u);
  EXPECT_EQ(view_of(pull(0, 0)), 0u);
  --training_number;
  // A pull without the numbers of rows that it announces.
  EXPECT_EQ(
    view_of(ask<pulled, tensors>(
      primary(),
      shard_pull{0, 70, {view.view_id, 1, 0, 0, {0}, training_number}, {1}},
      tensors{})),
    0u);
  const auto ask_for = [this](std::uint64_t step) {
    return ask<pulled, tensors>(
      primary(),
      shard_pull{0,
                 70,
                 {view.view_id, ++pull_number, 0, step, {0}, training_number},
                 {0}},
      tensors{});
  };
  const auto older = ask_for(1), newer = ask_for(1);
  EXPECT_EQ(view_of(older), 0u); // the newer one takes its place
  EXPECT_FALSE(newer->answer);
  enter(); // a view ends it
  EXPECT_EQ(view_of(newer), 0u);
  // The primary of a newer view can have the contributions.
  EXPECT_EQ(view_of(decide(0, {0}, {})), 0u);
  const auto last = ask_for(1);
  EXPECT_FALSE(last->answer);
  begin(1, synchronous, {4});
  EXPECT_EQ(view_of(last), 0u);
}

TEST_F(ShardHost, GoesOnIfARequestBreaksTheProtocol) {
  start(1);
  make_parts();
  begin(1, synchronous, {4});
  EXPECT_NE(pull(0, 0)->problem.find("unknown replica or part"),
            std::string::npos);
  EXPECT_NE(decide(0, {1}, {})->problem.find("impossible contributors"),
            std::string::npos);
  EXPECT_EQ(result_of(push({0, 0, 0}, {floats({1, 1})})),
            push_result::accepted);
  EXPECT_NE(decide(0, {0}, {true, -1, 1})->problem.find("not negative"),
            std::string::npos);
  EXPECT_NE(decide(0, {0}, {false, 0, 1 / 0.0F})->problem.find("finite"),
            std::string::npos);
  const auto done = decide(0, {0}, {});
  ASSERT_TRUE(done->answer);
  EXPECT_EQ(std::get<0>(*done->answer).view_id, view.view_id);
}

TEST_F(ShardHost, AnswersWhatIsBehindTheBeginOfATraining) {
  start(2);
  make_parts();
  begin(1, synchronous, {4});
  result_of(push({0, 0, 0}, {floats({1, 1})}));
  const auto backup = caf::actor_cast<caf::actor_addr>(hosts.at(2)).id();
  sim.hold([backup](caf::actor_id x) { return x == backup; });
  shard_request next_training{
    0, {{7, next}, next}, kind::begin, encode_body(new_training{3})};
  ++next;
  next_training.command.begins = {{2, 1, {{4, synchronous}}}};
  const auto begins =
    ask<shard_answer, tensors>(primary(), std::move(next_training), tensors{});
  const auto behind = decide(0, {0}, {});
  EXPECT_FALSE(begins->answer);
  EXPECT_FALSE(behind->answer);
  sim.hold({});
  sim.advance(500ms, 10ms);
  EXPECT_TRUE(begins->answer);
  ASSERT_TRUE(behind->answer);
  EXPECT_EQ(std::get<0>(*behind->answer).view_id, 0u);
  // A replica that goes on in the training before hears of it.
  const auto late = ask<pulled, tensors>(
    primary(), shard_pull{0, 70, {view.view_id, 1, 0, 0, {0}, 1}, {0}},
    tensors{});
  EXPECT_NE(late->problem.find("later training"), std::string::npos);
}

TEST_F(ShardHost, ABackupGoesOnWithTheSameBits) {
  start(3);
  make_parts();
  begin(2, asynchronous);
  EXPECT_EQ(result_of(push({0, 0, 0}, {floats({1, 1})})),
            push_result::accepted);
  EXPECT_EQ(result_of(push({1, 0, 1}, row_of_table(3, {1, 2}))),
            push_result::accepted);
  lose(1);
  enter(2);
  EXPECT_EQ(result_of(push({0, 0, 0}, {floats({1, 1})})),
            push_result::repeated);
  expect_values(0, 0, {0, 1}, {0, -1});
  EXPECT_EQ(result_of(push({0, 0, 1}, {})), push_result::accepted);
  expect_values(0, 1, {0, 1}, {0, -1});
}

TEST_F(ShardHost, ANewBackupGetsWhatWaitsForADecision) {
  start(2);
  backups.clear();
  enter(); // without the backup, which drops its state
  make_parts();
  begin(2, synchronous);
  for (const std::uint32_t replica : {0, 1}) {
    const auto x = float(replica + 1);
    result_of(push({replica, 0, 0}, {floats({x, x})}));
    result_of(push({replica, 0, 1}, row_of_table(3, {x, x})));
  }
  backups = {2};
  enter();
  lose(1);
  enter(2);
  EXPECT_EQ(result_of(push({1, 0, 1}, row_of_table(3, {2, 2}))),
            push_result::repeated);
  const auto done = decide(0, {0, 1}, {false, 0, 0.5F});
  ASSERT_TRUE(done->answer);
  EXPECT_EQ(std::get<0>(*done->answer).view_id, view.view_id);
  expect_values(0, 1, {-0.5F, 0.5F}, {-0.5F, -0.5F});
}

TEST_F(ShardHost, ARecordWhoseGradientDoesNotFitEndsTheBackup) {
  start(2);
  make_parts();
  begin(1, asynchronous);
  const auto at = get<copy_report>(hosts.at(2), copy_table{}, std::uint64_t{9});
  copy_record wrong{0,
                    {view.view_id,
                     at.sequences.at(0) + 1,
                     {{view.view_id, {0, 0, 0}, 0, training_number}},
                     {},
                     at.sequences.at(0) + 1},
                    {},
                    {}};
  const auto out =
    ask<stored>(hosts.at(2), std::move(wrong), tensors{floats({1, 1, 1})});
  EXPECT_FALSE(out->answer);
  EXPECT_NE(out->problem, "");
}

} // namespace
} // namespace troupe
