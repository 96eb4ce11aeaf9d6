#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

// Tests the chief's decisions if replicas are in several processes, and the
// state that the chief keeps between runs.

using namespace troupe;
using namespace troupe::step_commit;
using step_commit::testing::one_process;
using step_commit::testing::thrown;
using step_commit::testing::two;

namespace {

/// A state machine whose replicas are configured and have an active run.
struct two_process_chief {
  explicit two_process_chief(std::uint64_t step_window = 4,
                             const placement& where = two,
                             std::uint64_t steps = 100)
    : machine{step_window, where} {
    record(machine.open());
    acknowledge_all();
    record(machine.run(0, steps));
  }
  void record(reaction&& what) {
    for (auto& x : what)
      effects.push_back(std::move(x));
  }
  void acknowledge_all() {
    for (std::uint32_t r = 0; r < 4; ++r)
      record(machine.on(configured{machine.generation(), r, 1, 0}));
  }
  void report_all(std::uint64_t step) {
    for (std::uint32_t r = 0; r < 4; ++r)
      record(machine.on(step_done{machine.generation(), step, r, 1, {}}));
    record(machine.acknowledge(step + 1));
  }
  template <class T>
  std::vector<T> effects_of() const {
    std::vector<T> out;
    for (const auto& x : effects)
      if (auto* it = std::get_if<T>(&x))
        out.push_back(*it);
    return out;
  }

  state_machine machine;
  reaction effects;
};

/// Returns the report of the loss of worker 1. Replica 0 waits for its sum, and
/// replica 1 has nothing to do.
failure_report loss_in(std::uint64_t step, std::uint32_t bucket) {
  return {.kind = failure_kind::process_lost,
          .code = ec::peer_lost,
          .processes = {1},
          .replicas = {2, 3},
          .step = step,
          .cause = "closed by the peer",
          .waits = {{false, 0, activity::all_reduce, bucket, {2, 3}},
                    {false, 1, activity::idle, 0, {}}}};
}

} // namespace

TEST(StepCommitOverProcesses, NamesTheWorkerTheStepAndTheOperation) {
  two_process_chief d;
  d.report_all(0);
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed by the peer"));
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 1u);
  d.record(
    d.machine.on(wait_report{1, 1, false, 0, activity::all_reduce, 3, {2, 3}}));
  EXPECT_TRUE(d.machine.probing()) << "replica 1 may still answer the probe";
  d.record(d.machine.on(wait_report{1, 1, false, 1, activity::idle, 0, {}}));
  EXPECT_TRUE(d.effects_of<aborted>().empty())
    << "the replicas have not left their steps";
  d.record(d.machine.on(configured{2, 0, 1, 0}));
  d.record(d.machine.on(configured{2, 1, 1, 0}));
  ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report, loss_in(1, 3));
}

TEST(StepCommitOverProcesses, IgnoresWaitReportsOfUnknownReplicas) {
  two_process_chief d;
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed by the peer"));
  d.record(
    d.machine.on(wait_report{1, 0, false, 4, activity::all_reduce, 3, {}}));
  d.record(d.machine.on(
    wait_report{1, 0, false, 0, activity::all_reduce, 3, {2, 3, 2, 3, 2}}));
  d.record(
    d.machine.on(wait_report{1, 0, false, 0, activity::all_reduce, 7, {2, 3}}));
  d.record(d.machine.on(
    // replica 0 answers the probe again, which has no effect
    wait_report{1, 0, false, 0, activity::all_reduce, 8, {2, 3}}));
  d.record(d.machine.on(wait_report{1, 0, false, 1, activity::idle, 0, {}}));
  d.record(d.machine.on(configured{2, 0, 1, 0}));
  d.record(d.machine.on(configured{2, 1, 1, 0}));
  ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report, loss_in(0, 7));
}

// Whichever path to a process ends first, the report is that of the loss.
TEST(StepCommitOverProcesses, ASuspicionDoesNotChangeTheReportOfALoss) {
  for (const bool suspected_first : {true, false}) {
    two_process_chief d;
    const wait_report suspicious{1,
                                 0,
                                 false,
                                 0,
                                 activity::all_reduce,
                                 3,
                                 {2, 3},
                                 {{1, ec::peer_lost, "the lane has closed"}}};
    if (suspected_first)
      d.record(d.machine.on(suspicious));
    d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed by the peer"));
    d.record(d.machine.on(suspicious));
    d.record(d.machine.on(wait_report{1, 0, false, 1, activity::idle, 0, {}}));
    d.record(d.machine.on(configured{2, 0, 1, 0}));
    d.record(d.machine.on(configured{2, 1, 1, 0}));
    ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
    EXPECT_EQ(d.effects_of<aborted>()[0].report, loss_in(0, 3));
  }
}

// The chief decides: without a loss a suspicion aborts the run only when the
// answers to the probe are due.
TEST(StepCommitOverProcesses, ASuspicionWithoutALossAbortsAtTheTimeout) {
  two_process_chief d;
  d.report_all(0);
  d.record(
    d.machine.on(wait_report{1,
                             1,
                             false,
                             0,
                             activity::all_reduce,
                             3,
                             {2, 3},
                             {{1, ec::unreachable, "no byte for 1 s"}}}));
  EXPECT_TRUE(d.machine.probing());
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 1u);
  d.record(d.machine.on(step_done{1, 1, 1, 1, {}}));
  EXPECT_TRUE(d.machine.probing()) << "a report does not end the suspicion";
  EXPECT_TRUE(d.effects_of<aborted>().empty());
  d.record(d.machine.on_timeout(1000));
  d.acknowledge_all();
  ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report,
            (failure_report{
              .kind = failure_kind::lanes_lost,
              .code = ec::unreachable,
              .processes = {1},
              .replicas = {0},
              .step = 1,
              .cause = "no byte for 1 s",
              .waits = {{false, 0, activity::all_reduce, 3, {2, 3}}},
              .unresponsive = {2, 3},
            }));
}

namespace {

/// Replica 0 waits in `step` and suspects worker 1.
wait_report suspicion_in(std::uint64_t step) {
  wait_report report{1, step, false, 0, activity::all_reduce, 3, {2, 3}};
  report.suspects = {{1, ec::peer_lost, "the lane has closed"}};
  return report;
}

} // namespace

// The suspected process lives, so its loss is not waited for.
TEST(StepCommitOverProcesses, ASuspicionAbortsAtOnceIfAllReplicasAnswer) {
  two_process_chief d;
  d.record(d.machine.on(suspicion_in(0)));
  d.record(d.machine.on(wait_report{1, 0, false, 1, activity::idle, 0, {}}));
  d.record(d.machine.on(wait_report{1, 0, false, 2, activity::idle, 0, {}}));
  EXPECT_TRUE(d.machine.probing());
  d.record(d.machine.on(wait_report{1, 0, false, 3, activity::idle, 0, {}}));
  EXPECT_FALSE(d.machine.probing());
  d.acknowledge_all();
  ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report.kind, failure_kind::lanes_lost);
  EXPECT_EQ(d.effects_of<aborted>()[0].report.cause, "the lane has closed");
}

// A step that completes without the suspected process is committed and ends the
// suspicion. A replica that still suspects the process in a later step reports
// it again.
TEST(StepCommitOverProcesses, ACommitEndsASuspicion) {
  two_process_chief d;
  d.record(d.machine.on(suspicion_in(0)));
  EXPECT_TRUE(d.machine.probing());
  d.report_all(0);
  EXPECT_EQ(d.effects_of<committed>().size(), 1u);
  EXPECT_FALSE(d.machine.probing());
  d.record(d.machine.on(suspicion_in(0)));
  EXPECT_FALSE(d.machine.probing()) << "step 0 is committed";
  d.record(d.machine.on(suspicion_in(1)));
  EXPECT_TRUE(d.machine.probing());
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 1u);
}

// If all granted steps are committed, the machine waits for no replica, so a
// slow callback of the caller aborts nothing.
TEST(StepCommitOverProcesses, ASuspicionDoesNotOutliveTheGrantedSteps) {
  two_process_chief d{1};
  const auto report_step = [&](std::uint64_t step) {
    for (std::uint32_t r = 0; r < 4; ++r)
      d.record(d.machine.on(step_done{1, step, r, 1, {}}));
  };
  report_step(0);
  d.record(d.machine.on(suspicion_in(1)));
  EXPECT_TRUE(d.machine.busy());
  report_step(1); // the caller has not acknowledged step 0: no more is granted
  EXPECT_EQ(d.effects_of<committed>().size(), 2u);
  EXPECT_FALSE(d.machine.busy());
}

// A collective of a call with a short timeout ends before the answers to the
// probe are due. The reason is the suspected process, not a stall.
TEST(StepCommitOverProcesses, ATimeoutOfACallNamesTheSuspectedProcess) {
  two_process_chief d;
  d.record(d.machine.on(suspicion_in(0)));
  const role_wait wait{false, 0, activity::all_reduce, 3, {2, 3}};
  d.record(d.machine.on(failed{1,
                               0,
                               0,
                               1,
                               {.kind = failure_kind::wait_timed_out,
                                .code = ec::stalled,
                                .timeout_ms = 50,
                                .waits = {wait}}}));
  d.acknowledge_all();
  ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report,
            (failure_report{
              .kind = failure_kind::lanes_lost,
              .code = ec::peer_lost,
              .processes = {1},
              .replicas = {0},
              .cause = "the lane has closed",
              .waits = {wait},
            }));
}

// A peer can send any suspicion; only possible ones have an effect.
TEST(StepCommitOverProcesses, IgnoresImpossibleSuspicions) {
  const auto has_effect = [](const auto& change) {
    two_process_chief d;
    auto report = suspicion_in(0);
    change(report);
    d.record(d.machine.on(report));
    return d.machine.probing();
  };
  EXPECT_TRUE(has_effect([](wait_report&) {}));
  EXPECT_FALSE(has_effect([](wait_report& x) { x.suspects[0].process = 2; }));
  EXPECT_FALSE(has_effect([](wait_report& x) { x.suspects[0].process = 0; }))
    << "the process of the replica";
  EXPECT_FALSE(has_effect([](wait_report& x) { x.reducer = true; }));
  EXPECT_FALSE(has_effect([](wait_report& x) { x.id = 4; }));
  EXPECT_FALSE(has_effect([](wait_report& x) { x.generation = 0; }));
  EXPECT_FALSE(
    has_effect([](wait_report& x) { x.suspects[0].code = ec::cancelled; }));
  EXPECT_FALSE(has_effect(
    [](wait_report& x) { x.suspects.assign(3, x.suspects.front()); }));
}

// A replica can fail for few reasons; a peer that sends another code does not
// choose what the caller of the run sees.
TEST(StepCommitOverProcesses, AFailureWithAForeignCodeIsInvalid) {
  two_process_chief d;
  auto failure = thrown(1, 2, "x");
  failure.report.code = ec::cancelled;
  d.record(d.machine.on(failure));
  d.acknowledge_all();
  ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report.code, ec::invalid);
}

// A peer can send any report of a failure. An impossible one still ends the
// step, but its content does not reach the caller of the run.
TEST(StepCommitOverProcesses, DropsTheContentOfImpossibleReports) {
  const auto report_after = [](const auto& change) {
    two_process_chief d;
    auto failure = thrown(1, 3, "no such file");
    change(failure.report);
    d.record(d.machine.on(failure));
    d.acknowledge_all();
    return d.effects_of<aborted>().at(0).report;
  };
  const failure_report whole{.kind = failure_kind::step_failed,
                             .code = ec::invalid,
                             .replicas = {3},
                             .cause = "no such file"};
  auto without = whole;
  without.cause.clear();
  EXPECT_EQ(report_after([](failure_report&) {}), whole);
  EXPECT_EQ(report_after([](failure_report& x) { x.replicas = {1}; }), whole)
    << "the message names its sender";
  EXPECT_EQ(report_after([](failure_report& x) { x.step = 7; }), whole);
  EXPECT_EQ(report_after([](failure_report& x) { x.processes = {2}; }),
            without);
  EXPECT_EQ(report_after([](failure_report& x) { x.replicas = {4}; }), without);
  EXPECT_EQ(report_after(
              [](failure_report& x) { x.kind = failure_kind::process_lost; }),
            without)
    << "only the chief decides that a process is lost";
  EXPECT_EQ(report_after([](failure_report& x) {
              x.cause.assign(max_cause_bytes + 1, 'x');
            }),
            without);
}

TEST(StepCommitOverProcesses, DoesNotWaitForeverForReplicasThatDoNotAnswer) {
  two_process_chief d;
  d.record(d.machine.on_process_lost(1, ec::unreachable, "silent for 1 s"));
  d.record(d.machine.on_timeout(1000));
  d.record(
    d.machine.on_timeout(1000)); // no acknowledgement: configure is sent again
  d.record(d.machine.on_timeout(1000));
  ASSERT_EQ(d.effects_of<aborted>().size(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report.code, ec::unreachable);
}

TEST(StepCommitOverProcesses, NamesTheReplicaWhoseStepFunctionFailed) {
  two_process_chief d;
  d.record(d.machine.on(thrown(1, 3, "no such file")));
  d.acknowledge_all();
  EXPECT_EQ(d.effects_of<aborted>().at(0).report,
            (failure_report{
              .kind = failure_kind::step_failed,
              .code = ec::invalid,
              .replicas = {3},
              .cause = "no such file",
            }));
}

TEST(StepCommitOverProcesses, GrantsAQuarterOfAWideWindowAtATime) {
  two_process_chief d{16};
  for (std::uint64_t s = 0; s < 40; ++s)
    d.report_all(s);
  EXPECT_EQ(d.effects_of<committed>().size(), 40u);
  EXPECT_EQ(d.effects_of<send_grant>().size(), 10u);
  EXPECT_EQ(d.effects_of<send_grant>().back().message.until, 56u);
}

TEST(StepCommitOverProcesses, GrantsThePartialBatchAtTheEnd) {
  two_process_chief d{16, two, 18};
  for (std::uint64_t s = 0; s < 18; ++s)
    d.report_all(s);
  EXPECT_EQ(d.effects_of<completed>().at(0).next, 18u);
}

TEST(StepCommit, RejectsRunsAfterAReducerWasLost) {
  state_machine commit_machine{4, one_process(1)};
  commit_machine.open();
  commit_machine.on_reducer_lost(2, "killed");
  const auto said = commit_machine.run(0, 1);
  const auto& why = std::get<aborted>(said.at(0));
  EXPECT_EQ(why.report, (failure_report{
                          .kind = failure_kind::reducer_missing,
                          .code = ec::peer_lost,
                          .replicas = {2},
                        }));
}

TEST(StepCommit, IgnoresMessagesOfAnotherIncarnation) {
  two_process_chief d{4, one_process(4)};
  for (std::uint32_t r = 0; r < 4; ++r)
    d.record(d.machine.on(step_done{1, 0, r, 2, {}}));
  d.record(d.machine.on(thrown(1, 1, "not mine", 2)));
  EXPECT_TRUE(d.effects_of<committed>().empty());
  d.report_all(0);
  EXPECT_EQ(d.effects_of<committed>().size(), 1u);
}

TEST(StepCommit, CountsOneWaitReportPerRole) {
  two_process_chief d{4, one_process(4)};
  d.record(d.machine.on_timeout(1000));
  d.record(
    d.machine.on(wait_report{1, 0, false, 0, activity::computing, 0, {}}));
  d.record(
    d.machine.on(wait_report{1, 0, false, 0, activity::computing, 0, {}}));
  d.record(d.machine.on_timeout(1000));
  d.acknowledge_all();
  const auto report = d.effects_of<aborted>().at(0).report;
  EXPECT_EQ(report.waits,
            (std::vector<role_wait>{{false, 0, activity::computing, 0, {}}}));
}

TEST(StepCommit, ResendsConfigureOnceIfItIsNotAcknowledged) {
  state_machine commit_machine{4, one_process(2)};
  commit_machine.open();
  commit_machine.on(configured{1, 0, 1, 0});
  commit_machine.run(0, 1);
  const auto again = commit_machine.on_timeout(1000);
  EXPECT_EQ(std::get<send_configure>(again.at(0)).replicas,
            std::vector<std::uint32_t>{1});
  EXPECT_TRUE(commit_machine.probing()) << "the shorter timeout applies";
  const auto begun = commit_machine.on(configured{1, 1, 1, 0});
  EXPECT_TRUE(std::holds_alternative<send_start>(begun.at(0)));
}
