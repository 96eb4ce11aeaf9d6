#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/coordinator/executions.hpp"
#include "troupe/strategies/coordinator/state_machine.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

// Single steps of the coordinator. Runs under faults are in
// random_coordinator_job_test.cpp.

namespace troupe::coordinator {

namespace {

template <class Effect>
std::vector<Effect> all(const reaction& from) {
  std::vector<Effect> out;
  for (const auto& one : from)
    if (const auto* x = std::get_if<Effect>(&one))
      out.push_back(*x);
  return out;
}

/// Makes the records durable.
void keep(records& to, const reaction& from) {
  for (const auto& one : from)
    std::visit(
      [&](const auto& x) {
        if constexpr (requires { to.add(x); })
          to.add(x);
      },
      one);
}

payload text(const char* x) {
  return std::make_shared<const std::string>(x);
}

constexpr std::uint64_t w0 = 100, w1 = 101, w2 = 102;

stopped stopped_by(std::uint64_t ordinal) {
  return {{ordinal, 1}};
}

TEST(Coordinator, RunsClosuresInOrderOnFreePlaces) {
  state_machine machine{3};
  EXPECT_TRUE(machine.schedule(text("a")).empty());
  machine.schedule(text("b"));
  machine.schedule(text("c"));
  const auto first = all<send_run>(machine.on_worker(w0, 1));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].run.execution, (execution{0, 1}));
  const auto second = all<send_run>(machine.on_worker(w1, 2));
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].run.execution.ordinal, 1u);
  EXPECT_EQ(second[1].run.execution.ordinal, 2u);
  EXPECT_TRUE(machine.on_worker(w0, 5).empty()); // known
}

TEST(Coordinator, RunsClosuresThatWaitForOthersWithoutAPlace) {
  state_machine machine{3};
  machine.schedule(nullptr);
  machine.schedule(nullptr);
  const auto first = all<send_run>(machine.on_worker(w0, 1));
  ASSERT_EQ(first.size(), 1u); // the place is taken
  EXPECT_FALSE(first[0].run.waits_for_others);
  for (std::uint64_t ordinal : {2, 3}) {
    const auto next = all<send_run>(machine.schedule(nullptr, true));
    ASSERT_EQ(next.size(), 1u);
    EXPECT_EQ(next[0].worker, w0);
    EXPECT_EQ(next[0].run.execution.ordinal, ordinal);
    EXPECT_TRUE(next[0].run.waits_for_others);
  }
  // A worker that joins gets closure 1, and takes over closure 3.
  EXPECT_EQ(all<send_run>(machine.on_worker(w1, 1)).size(), 2u);
  // The worker with the fewest of them gets the next one.
  EXPECT_EQ(all<send_run>(machine.schedule(nullptr, true)).at(0).worker, w0);
  EXPECT_EQ(all<send_run>(machine.schedule(nullptr, true)).at(0).worker, w1);
  // Those of a lost worker begin again on the others, with the lowest first.
  const auto moved = all<send_run>(machine.on_worker_lost(w0));
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[0].run.execution, (execution{2, 2}));
  EXPECT_EQ(moved[1].run.execution, (execution{4, 2}));
  // The end of one frees no place.
  EXPECT_TRUE(
    all<send_run>(machine.on(w1, ended{{2, 2}, {}}, nullptr)).empty());
  EXPECT_EQ(all<send_run>(machine.on(w1, ended{{1, 1}, {}}, nullptr)).size(),
            1u);
}

TEST(Coordinator, GivesAWorkerThatJoinsClosuresThatWaitForOthers) {
  state_machine machine{3};
  machine.on_worker(w0, 1);
  for (int i = 0; i < 4; ++i)
    machine.schedule(nullptr, true);
  const auto joined = machine.on_worker(w1, 1);
  const auto stopped = all<send_cancel>(joined);
  ASSERT_EQ(stopped.size(), 2u);
  EXPECT_EQ(stopped[0].worker, w0);
  EXPECT_EQ(stopped[0].cancel.execution, (execution{3, 1}));
  EXPECT_EQ(stopped[1].cancel.execution, (execution{2, 1}));
  const auto begun = all<send_run>(joined);
  ASSERT_EQ(begun.size(), 2u);
  for (const auto& one : begun) {
    EXPECT_EQ(one.worker, w1);
    EXPECT_EQ(one.run.execution.attempt, 2u);
  }
  // What becomes of the first attempts has no effect.
  EXPECT_TRUE(machine.on(w0, stopped_by(3)).empty());
  EXPECT_TRUE(machine.on(w0, ended{{3, 1}, {}}, nullptr).empty());
  EXPECT_EQ(
    all<result_ready>(machine.on(w1, ended{{3, 2}, {}}, nullptr)).size(), 1u);
  // w0 has two of them, and w1 one.
  EXPECT_EQ(all<send_cancel>(machine.on_worker(w2, 1)).at(0).worker, w0);
}

/// A worker with fewer closures beside its places is preferred.
TEST(Coordinator, RunsClosuresBesideTheFewestThatWaitForOthers) {
  state_machine machine{3};
  machine.on_worker(w0, 1);
  machine.on_worker(w1, 1);
  EXPECT_EQ(all<send_run>(machine.schedule(nullptr, true)).at(0).worker, w0);
  EXPECT_EQ(all<send_run>(machine.schedule(nullptr)).at(0).worker, w1);
}

TEST(Coordinator, ReportsTheResultOfAClosureWithoutEffectsAtOnce) {
  state_machine machine{3};
  machine.on_worker(w0, 1);
  machine.schedule(nullptr);
  EXPECT_FALSE(machine.is_done());
  const auto result = text("r");
  const auto ready =
    all<result_ready>(machine.on(w0, ended{{0, 1}, {}}, result));
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].result, result);
  EXPECT_TRUE(machine.is_done());
  EXPECT_TRUE(machine.on(w0, ended{{0, 1}, {}}, result).empty());
}

TEST(Coordinator, WaitsUntilAllShardsHaveTheDecision) {
  state_machine machine{3};
  machine.on_worker(w0, 1);
  machine.schedule(nullptr);
  const auto sent =
    all<send_decision>(machine.on(w0, ended{{0, 1}, {0, 2}}, nullptr));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].shard, 2u);
  EXPECT_EQ(sent[1].decision.done_below, 0u);
  EXPECT_TRUE(machine.on(decided{2, 0}).empty());
  const auto again = all<send_decision>(machine.on_timeout());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].shard, 0u);
  EXPECT_EQ(all<result_ready>(machine.on(decided{0, 0})).size(), 1u);
  EXPECT_EQ(machine.done_below(), 1u);
}

TEST(Coordinator, RunsTheClosuresOfALostWorkerAgain) {
  state_machine machine{3};
  machine.on_worker(w0, 2);
  machine.schedule(nullptr);
  machine.schedule(nullptr);
  machine.on(w0, ended{{0, 1}, {0}}, nullptr); // has ended
  machine.on_worker_lost(w0);
  const auto again = all<send_run>(machine.on_worker(w1, 1));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].run.execution, (execution{1, 2}));
  // The lost worker goes on: its attempt does not count.
  EXPECT_TRUE(machine.on(w0, ended{{1, 1}, {}}, nullptr).empty());
  EXPECT_TRUE(machine.on(w1, ended{{1, 1}, {}}, nullptr).empty());
  EXPECT_EQ(
    all<result_ready>(machine.on(w1, ended{{1, 2}, {}}, nullptr)).size(), 1u);
}

// A26 of the acceptance cases of TensorFlow.
TEST(Coordinator, A26AnErrorCancelsTheOthersAndIsReportedOnce) {
  state_machine machine{3};
  machine.on_worker(w0, 3);
  for (int i = 0; i < 5; ++i)
    machine.schedule(nullptr);
  const auto error = text("thrown");
  const auto first = machine.on(w0, failed{{1, 1}}, error);
  const auto waiting = all<cancelled>(first);
  ASSERT_EQ(waiting.size(), 2u); // 3 and 4
  EXPECT_EQ(waiting[0].ordinal, 3u);
  ASSERT_EQ(all<send_cancel>(first).size(), 2u); // 0 and 2
  EXPECT_TRUE(all<error_ready>(first).empty());
  EXPECT_FALSE(machine.can_schedule());
  // One ends before it is stopped, and counts. A second error is not reported.
  EXPECT_EQ(
    all<result_ready>(machine.on(w0, ended{{0, 1}, {}}, nullptr)).size(), 1u);
  const auto last = machine.on(w0, failed{{2, 1}}, text("second"));
  ASSERT_EQ(all<error_ready>(last).size(), 1u);
  EXPECT_EQ(all<error_ready>(last)[0].error, error);
  EXPECT_TRUE(machine.has_error());
  EXPECT_FALSE(machine.is_done());
  machine.resume();
  EXPECT_TRUE(machine.is_done());
  EXPECT_EQ(all<send_run>(machine.schedule(nullptr)).size(), 1u);
}

TEST(Coordinator, ReportsAnErrorWhenTheLastWorkerThatRunsIsLost) {
  state_machine machine{3};
  machine.on_worker(w0, 1);
  machine.on_worker(w1, 1);
  machine.schedule(nullptr);
  machine.schedule(nullptr);
  EXPECT_TRUE(
    all<error_ready>(machine.on(w0, failed{{0, 1}}, nullptr)).empty());
  const auto lost = machine.on_worker_lost(w1);
  EXPECT_EQ(all<cancelled>(lost).size(), 1u);
  EXPECT_EQ(all<error_ready>(lost).size(), 1u);
}

TEST(Coordinator, BoundsTheClosuresThatAreNotDone) {
  state_machine machine{3, 2};
  machine.on_worker(w0, 1);
  machine.schedule(nullptr);
  EXPECT_TRUE(machine.can_schedule());
  machine.schedule(nullptr);
  EXPECT_FALSE(machine.can_schedule());
  machine.on(w0, ended{{0, 1}, {}}, nullptr);
  EXPECT_TRUE(machine.can_schedule());
}

TEST(Coordinator, OneLongClosureBoundsThoseAfterIt) {
  state_machine machine{3, 4};
  machine.on_worker(w0, 2);
  machine.schedule(nullptr); // does not end
  std::uint64_t ordinal = 0;
  while (ordinal < 100 && machine.can_schedule()) {
    machine.schedule(nullptr);
    machine.on(w0, ended{{++ordinal, 1}, {}}, nullptr);
  }
  EXPECT_EQ(ordinal, 3u);
  machine.on(w0, ended{{0, 1}, {}}, nullptr);
  EXPECT_TRUE(machine.can_schedule());
}

TEST(Coordinator, RejectsAnEndThatNamesNoShard) {
  state_machine machine{3};
  machine.on_worker(w0, 1);
  machine.schedule(nullptr);
  for (const std::vector<std::uint32_t>& with :
       {std::vector<std::uint32_t>{3}, {1, 1}, {2, 0}}) {
    const auto rejected = machine.on(w0, ended{{0, 1}, with}, nullptr);
    EXPECT_EQ(all<protocol_error>(rejected).size(), 1u);
    EXPECT_EQ(rejected.size(), 1u);
  }
  EXPECT_FALSE(machine.is_done());
}

TEST(Coordinator, IgnoresStoppedIfNothingWasCancelled) {
  state_machine machine{3};
  machine.on_worker(w0, 1);
  machine.schedule(nullptr);
  EXPECT_TRUE(machine.on(w0, stopped{{0, 1}}).empty());
  EXPECT_EQ(
    all<result_ready>(machine.on(w0, ended{{0, 1}, {}}, nullptr)).size(), 1u);
}

TEST(Coordinator, SendsAClosureAgainOnlyToAWorkerThatLacksIt) {
  state_machine machine{3};
  const auto function = text("f");
  machine.on_worker(w0, 1);
  machine.schedule(function);
  for (int i = 0; i < 3; ++i) {
    const auto asks = machine.on_timeout();
    ASSERT_EQ(asks.size(), 1u);
    EXPECT_EQ(std::get<send_query>(asks[0]).query.execution, (execution{0, 1}));
  }
  const auto again = machine.on(w0, unknown{{0, 1}});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(std::get<send_run>(again[0]).run.execution, (execution{0, 1}));
  EXPECT_EQ(std::get<send_run>(again[0]).closure, function);
  EXPECT_TRUE(machine.on(w1, unknown{{0, 1}}).empty());
  EXPECT_TRUE(machine.on(w0, unknown{{0, 2}}).empty());
  machine.on(w0, ended{{0, 1}, {}}, nullptr);
  EXPECT_TRUE(machine.on(w0, unknown{{0, 1}}).empty());
  EXPECT_TRUE(machine.on_timeout().empty());
}

TEST(Coordinator, SendsNoClosureWhileAnErrorIsHandled) {
  state_machine machine{3};
  machine.on_worker(w0, 2);
  machine.schedule(nullptr);
  machine.schedule(nullptr);
  machine.on(w0, failed{{0, 1}}, nullptr);
  EXPECT_TRUE(machine.on(w0, unknown{{1, 1}}).empty());
  const auto again = machine.on_timeout();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<send_cancel>(again[0]));
}

TEST(Coordinator, ReceivesAnEndThatWasLostWhenItAsks) {
  state_machine machine{3};
  executions worker;
  machine.on_worker(w0, 1);
  const auto sent = all<send_run>(machine.schedule(nullptr)).at(0).run;
  const auto& which = sent.execution;
  ASSERT_TRUE(worker.begin(sent));
  const auto asked = all<send_query>(machine.on_timeout()).at(0).query;
  EXPECT_FALSE(worker.answer_to(asked.execution)); // is executed
  EXPECT_TRUE(worker.finish(which, {ended{which, {}}, text("r")})); // lost
  const auto again = worker.answer_to(asked.execution);
  ASSERT_TRUE(again);
  const auto ready = all<result_ready>(
    machine.on(w0, std::get<ended>(again->message), again->beside));
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].result, again->beside);
}

TEST(Coordinator, RecordsAnEndBeforeItIsDecidedOrReported) {
  state_machine machine{3};
  machine.on_worker(w0, 2);
  machine.schedule(nullptr);
  machine.schedule(nullptr);
  const auto result = text("r");
  const auto decides = machine.on(w0, ended{{1, 1}, {0, 2}}, result);
  const auto* const recorded = std::get_if<record_end>(&decides.at(0));
  ASSERT_TRUE(recorded);
  EXPECT_EQ(recorded->end.execution, (execution{1, 1}));
  EXPECT_EQ(recorded->end.shards, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(recorded->result, result);
  EXPECT_EQ(all<send_decision>(decides).size(), 2u);
  const auto reports = machine.on(w0, ended{{0, 1}, {}}, nullptr);
  EXPECT_TRUE(std::holds_alternative<record_end>(reports.at(0)));
  EXPECT_TRUE(std::holds_alternative<result_ready>(reports.at(1)));
}

TEST(Coordinator, FindsTheRecordedEndsInItsNextLife) {
  records kept;
  const auto result = text("r");
  {
    state_machine machine{3};
    machine.on_worker(w0, 3);
    for (int i = 0; i < 3; ++i)
      machine.schedule(nullptr);
    keep(kept, machine.on(w0, ended{{0, 1}, {}}, result));
    keep(kept, machine.on(w0, ended{{2, 1}, {0, 2}}, result));
    machine.on(decided{0, 2});
  }
  state_machine next{3, 16, 2, kept};
  next.on_worker(w0, 3);
  const auto first = next.schedule(nullptr);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(std::get<result_ready>(first[0]).result, result);
  const auto second = next.schedule(nullptr);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(std::get<send_run>(second[0]).run.execution, (execution{1, 1, 2}));
  // The decision names the execution of the first life.
  const auto third = next.schedule(nullptr);
  ASSERT_EQ(third.size(), 2u);
  EXPECT_EQ(std::get<send_decision>(third[0]).decision.execution,
            (execution{2, 1, 1}));
  EXPECT_EQ(all<send_decision>(next.on_timeout()).size(), 2u);
  EXPECT_TRUE(next.on(decided{0, 2}).empty());
  const auto last = next.on(decided{2, 2});
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(std::get<result_ready>(last[0]).result, result);
}

TEST(Coordinator, IgnoresExecutionsOfAnEarlierLife) {
  state_machine machine{3, 16, 2};
  machine.on_worker(w0, 2);
  machine.schedule(nullptr);
  machine.schedule(nullptr);
  EXPECT_TRUE(machine.on(w0, ended{{0, 1, 1}, {}}, nullptr).empty());
  EXPECT_TRUE(machine.on(w0, failed{{0, 1, 1}}, nullptr).empty());
  machine.on(w0, failed{{1, 1, 2}}, nullptr);
  EXPECT_TRUE(machine.on(w0, stopped{{0, 1, 1}}).empty());
  EXPECT_EQ(
    all<result_ready>(machine.on(w0, ended{{0, 1, 2}, {}}, nullptr)).size(),
    1u);
}

TEST(Coordinator, RepeatsARecordedErrorBetweenTheSameCallsOfSchedule) {
  records kept;
  const auto error = text("thrown");
  {
    state_machine machine{3};
    machine.on_worker(w0, 3);
    for (int i = 0; i < 4; ++i)
      machine.schedule(nullptr);
    keep(kept, machine.on(w0, failed{{1, 1}}, error));
    keep(kept, machine.on(w0, ended{{0, 1}, {}}, nullptr));
    const auto last = machine.on(w0, stopped{{2, 1}});
    keep(kept, last);
    ASSERT_EQ(last.size(), 3u); // cancelled first
    EXPECT_EQ(std::get<record_error>(last[1]).scheduled, 4u);
    EXPECT_TRUE(std::holds_alternative<error_ready>(last[2]));
    machine.resume();
    keep(kept, machine.schedule(nullptr));
    keep(kept, machine.on(w0, ended{{4, 1}, {}}, nullptr));
  }
  EXPECT_EQ(kept.ends.size(), 2u);
  state_machine next{3, 16, 2, kept};
  next.on_worker(w0, 3);
  EXPECT_EQ(all<result_ready>(next.schedule(nullptr)).size(), 1u);
  EXPECT_TRUE(next.schedule(nullptr).empty()); // the one that has thrown
  EXPECT_EQ(all<cancelled>(next.schedule(nullptr)).size(), 1u);
  EXPECT_TRUE(next.can_schedule());
  const auto fourth = next.schedule(nullptr);
  EXPECT_EQ(all<cancelled>(fourth).size(), 1u);
  ASSERT_EQ(all<error_ready>(fourth).size(), 1u);
  EXPECT_EQ(all<error_ready>(fourth)[0].ordinal, 1u);
  EXPECT_EQ(all<error_ready>(fourth)[0].error, error);
  EXPECT_TRUE(all<record_error>(fourth).empty());
  EXPECT_TRUE(next.has_error());
  EXPECT_FALSE(next.can_schedule());
  next.resume();
  EXPECT_EQ(all<result_ready>(next.schedule(nullptr)).size(), 1u);
  EXPECT_EQ(all<send_run>(next.schedule(nullptr)).size(), 1u);
}

// A coordinator that is lost before the error is recorded executes the
// cancelled closures in its next life. So workers and shards must not forget
// them.
TEST(Coordinator, SaysThatCancelledClosuresAreDoneWhenTheErrorIsRecorded) {
  state_machine machine{3};
  machine.on_worker(w0, 3);
  for (int i = 0; i < 3; ++i)
    machine.schedule(nullptr);
  machine.on(w0, failed{{1, 1}}, nullptr);
  const auto end = machine.on(w0, ended{{0, 1}, {0}}, nullptr);
  EXPECT_EQ(all<send_decision>(end).at(0).decision.done_below, 0u);
  machine.on(decided{0, 0});
  EXPECT_EQ(machine.done_below(), 1u);
  machine.on(w0, stopped{{2, 1}});
  EXPECT_EQ(machine.done_below(), 3u);
}

TEST(Coordinator, ForgetsRecordsOfClosuresThatAreDone) {
  records kept;
  state_machine machine{3};
  machine.on_worker(w0, 3);
  for (int i = 0; i < 3; ++i) {
    machine.schedule(nullptr);
    keep(kept, machine.on(w0, ended{{std::uint64_t(i), 1}, {}}, nullptr));
  }
  machine.schedule(nullptr);
  EXPECT_THROW(machine.forget_below(4), std::logic_error);
  keep(kept, machine.forget_below(2));
  EXPECT_EQ(kept.ends.size(), 1u);
  // A program that runs again goes on with closure 2.
  state_machine next{3, 16, 2, kept};
  EXPECT_EQ(next.scheduled(), 2u);
  EXPECT_EQ(next.done_below(), 2u);
  EXPECT_EQ(all<result_ready>(next.schedule(nullptr)).size(), 1u);
  next.on_worker(w0, 1);
  EXPECT_EQ(all<send_run>(next.schedule(nullptr)).at(0).run.execution,
            (execution{3, 1, 2}));
  machine.on(w0, failed{{3, 1}}, nullptr);
  EXPECT_THROW(machine.forget_below(4), std::logic_error);
}

TEST(Records, ForgetErrorsThatWereReportedBefore) {
  records kept;
  kept.add(record_error{1, 3, nullptr});
  kept.add(record_error{4, 6, nullptr});
  kept.add(record_end{{{5, 1}, {}}, nullptr});
  kept.add(forget_records{3});
  EXPECT_EQ(kept.first, 3u);
  EXPECT_EQ(kept.errors.size(), 1u);
  EXPECT_EQ(kept.ends.size(), 1u);
  kept.add(forget_records{2});
  EXPECT_EQ(kept.first, 3u);
}

TEST(ClosureEffects, TakePlaceOnceForTheDecidedExecution) {
  closure_effects effects;
  const auto first = text("first"), second = text("second");
  EXPECT_TRUE(effects.store({5, 1}, first));
  EXPECT_TRUE(effects.store({5, 2}, second));
  EXPECT_EQ(*effects.decide({{5, 2}, 3}).applied, second);
  EXPECT_FALSE(effects.decide({{5, 2}, 3}).applied);
  EXPECT_FALSE(effects.decide({{5, 1}, 3}).applied);
  EXPECT_EQ(effects.waiting(), 0u);
  EXPECT_FALSE(effects.store({5, 1}, first));
  EXPECT_FALSE(effects.store({2, 1}, first)); // below the mark
}

TEST(ClosureEffects, RejectADecisionOnEffectsThatWereNotStored) {
  closure_effects effects;
  effects.store({0, 1}, nullptr);
  EXPECT_FALSE(effects.decide({{0, 2}, 0}).is_possible);
  EXPECT_FALSE(effects.decide({{1, 1}, 0}).is_possible);
  EXPECT_EQ(effects.waiting(), 1u);
}

TEST(ClosureEffects, AreStoredOnce) {
  closure_effects effects;
  const auto first = text("first");
  effects.store({0, 1}, first);
  effects.store({0, 1}, text("second"));
  EXPECT_EQ(*effects.decide({{0, 1}, 0}).applied, first);
  EXPECT_EQ(effects.decided(), 1u);
  effects.store({5, 1}, nullptr, 5);
  EXPECT_EQ(effects.decided(), 0u);
}

TEST(ClosureEffects, OfAnEarlierLifeWaitForTheDecisionOfTheNextOne) {
  closure_effects effects;
  const auto first = text("first");
  effects.store({7, 1, 1}, first);
  effects.store({7, 1, 2}, text("second"));
  effects.store({8, 1, 2}, nullptr);
  effects.decide({{8, 1, 2}, 0});
  EXPECT_EQ(*effects.decide({{7, 1, 1}, 0}).applied, first);
  EXPECT_FALSE(effects.decide({{7, 1, 2}, 0}).applied);
}

TEST(ClosureEffects, ForgetClosuresThatAreDone) {
  closure_effects effects;
  effects.store({0, 1}, nullptr); // cancelled: never decided
  effects.store({1, 1}, nullptr);
  effects.store({2, 1}, nullptr);
  effects.decide({{1, 1}, 1});
  EXPECT_EQ(effects.waiting(), 1u);
  effects.decide({{2, 1}, 2});
  EXPECT_EQ(effects.waiting(), 0u);
  EXPECT_TRUE(effects.is_decided(0));
}

TEST(Executions, BeginOnce) {
  executions begun;
  EXPECT_TRUE(begun.begin({{3, 1}, 0}));
  EXPECT_FALSE(begun.begin({{3, 1}, 0}));
  EXPECT_TRUE(begun.begin({{3, 2}, 0}));
  begun.on(cancel{{4, 1}});
  EXPECT_FALSE(begun.begin({{4, 1}, 0}));
  EXPECT_TRUE(begun.begin({{5, 1}, 5}));
  EXPECT_EQ(begun.size(), 1u);
  EXPECT_FALSE(begun.begin({{3, 3}, 0})); // is done
}

TEST(Executions, KeepTheirAnswersUntilTheCoordinatorKnowsThem) {
  executions begun;
  const execution first{3, 1}, second{4, 1};
  EXPECT_TRUE(std::holds_alternative<unknown>(begun.answer_to(first)->message));
  begun.begin({first, 0});
  begun.begin({second, 0});
  EXPECT_FALSE(begun.answer_to(first));
  EXPECT_TRUE(begun.finish(first, {failed{first}, text("error")}));
  EXPECT_FALSE(begun.finish(first, {ended{first, {}}, nullptr}));
  begun.on(cancel{first});
  EXPECT_TRUE(std::holds_alternative<failed>(begun.answer_to(first)->message));
  begun.on(cancel{second});
  EXPECT_TRUE(
    std::holds_alternative<stopped>(begun.answer_to(second)->message));
  EXPECT_FALSE(begun.finish(second, {ended{second, {}}, nullptr}));
  begun.begin({{5, 1}, 4});
  EXPECT_FALSE(begun.answer_to(first));
  EXPECT_TRUE(begun.answer_to(second));
  begun.begin({{5, 1, 2}, 4});
  EXPECT_FALSE(begun.answer_to(second));
  EXPECT_FALSE(begun.finish({5, 1, 1}, {ended{{5, 1, 1}, {}}, nullptr}));
  EXPECT_TRUE(
    std::holds_alternative<unknown>(begun.answer_to({4, 1, 2})->message));
  EXPECT_EQ(begun.size(), 1u);
}

TEST(Executions, OfAnEarlierLifeAreSuperseded) {
  executions begun;
  EXPECT_TRUE(begun.begin({{3, 1, 1}, 0}));
  EXPECT_FALSE(begun.is_superseded({3, 1, 1}));
  EXPECT_TRUE(begun.begin({{3, 1, 2}, 0}));
  EXPECT_TRUE(begun.is_superseded({3, 1, 1}));
  EXPECT_FALSE(begun.is_superseded({3, 1, 2}));
  EXPECT_FALSE(begun.begin({{4, 1, 1}, 0}));
  begun.on(cancel{{5, 1, 1}}); // late
  EXPECT_EQ(begun.size(), 1u);
  begun.on(cancel{{3, 1, 3}});
  EXPECT_TRUE(begun.is_superseded({3, 1, 2}));
  EXPECT_FALSE(begun.begin({{3, 1, 3}, 0}));
}

} // namespace

} // namespace troupe::coordinator
