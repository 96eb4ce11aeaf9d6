#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

#include <limits>

// Tests the limits of the state machine's counters, and unexpected messages.

using namespace troupe;
using namespace troupe::step_commit;
using namespace troupe::step_commit::testing;

// -- runs ---------------------------------------------------------------------

TEST(StepCommitRun, WithoutStepsCompletesAtOnce) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(5, 0));
  ASSERT_EQ(d.count<completed>(), 1u);
  EXPECT_EQ(d.effects_of<completed>()[0].next, 5u);
  EXPECT_EQ(d.count<send_start>(), 0u);
  EXPECT_FALSE(d.machine.busy());
}

TEST(StepCommitRun, CompletesOnce) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(0, 2));
  d.commit_step(0);
  for (std::uint32_t r = 0; r < 2; ++r)
    d.report_step(r, 1);
  EXPECT_EQ(d.count<completed>(), 1u);
  EXPECT_TRUE(d.machine.acknowledge(2).empty());
  EXPECT_TRUE(d.machine.stop().empty());
  EXPECT_TRUE(d.machine.on(step_done{1, 2, 0, 1, {}}).empty());
  EXPECT_TRUE(d.machine.on(thrown(1, 0, "late")).empty());
  EXPECT_EQ(d.count<send_grant>(), 0u) << "start_steps granted all steps";
  EXPECT_EQ(d.machine.next(), 2u);
}

TEST(StepCommitRun, MayHaveTheLargestNumberOfSteps) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(end_step(10, 5), 15u);
  EXPECT_EQ(end_step(10, most), most);
  EXPECT_EQ(end_step(10, most - 10), most);
  EXPECT_EQ(end_step(10, most - 11), most - 1);
}

TEST(StepCommitRun, GrantsOneStepAtATimeUnlessTheWindowIsWide) {
  for (const std::uint64_t step_window : {1, 2, 3, 4, 7})
    EXPECT_EQ(grant_batch(step_window), 1u) << step_window;
  EXPECT_EQ(grant_batch(8), 2u);
  EXPECT_EQ(grant_batch(16), 4u);
}

TEST(StepCommitRun, GrantsThePartialBatchBeforeReplicasWaitForIt) {
  chief_fixture d{one_process(1), 16};
  d.record(d.machine.run(0, 18));
  d.commit_step(0);
  EXPECT_EQ(d.count<send_grant>(), 0u) << "one step is less than a quarter";
  d.commit_step(1);
  ASSERT_EQ(d.count<send_grant>(), 1u);
  EXPECT_EQ(d.effects_of<send_grant>()[0].message.until, 18u);
}

TEST(StepCommitRun, CanBeStoppedBeforeReplicasAreConfigured) {
  state_machine commit_machine{4, one_process(2)};
  commit_machine.open();
  commit_machine.on(configured{1, 0, 1, 0});
  commit_machine.run(3, 9);
  EXPECT_TRUE(commit_machine.stop().empty());
  const auto what = commit_machine.on(configured{1, 1, 1, 0});
  ASSERT_EQ(what.size(), 1u);
  EXPECT_EQ(std::get<completed>(what[0]).next, 3u);
}

TEST(StepCommitRun, CanBeAbortedForAnExternalReason) {
  chief_fixture d{one_process(2)};
  const failure_report reason{.kind = failure_kind::run_left,
                              .code = ec::protocol};
  EXPECT_TRUE(d.machine.end_with(reason).empty()) << "no run is active";
  d.record(d.machine.run(0, 9));
  d.record(d.machine.end_with(reason));
  EXPECT_EQ(d.machine.generation(), 2u);
  EXPECT_TRUE(d.machine.end_with({}).empty()) << "the run ends already";
  EXPECT_EQ(d.count<aborted>(), 0u);
  d.acknowledge_all();
  ASSERT_EQ(d.count<aborted>(), 1u);
  EXPECT_EQ(d.abort_report(), reason);
}

TEST(StepCommitRun, NeedsNoNewGenerationIfNoStepWasGranted) {
  chief_fixture d{one_process(1)};
  d.record(d.machine.run(3, 9));
  d.record(d.machine.end_with({}));
  d.acknowledge_all();
  EXPECT_EQ(d.machine.generation(), 2u);
  d.record(d.machine.run(0, 1));
  EXPECT_EQ(d.machine.generation(), 2u)
    << "no step of that generation was granted";
  EXPECT_EQ(d.effects_of<send_start>().back().message.generation, 2u);
}

// -- configuration ------------------------------------------------------------

TEST(StepCommitConfigure, IsSentToAllReplicasFirst) {
  state_machine commit_machine{4, one_process(3)};
  const auto what = commit_machine.open();
  ASSERT_EQ(what.size(), 1u);
  const auto& configures = std::get<send_configure>(what[0]);
  EXPECT_EQ(configures.replicas, (ids{0, 1, 2}));
  EXPECT_EQ(configures.message.generation, 1u);
  EXPECT_EQ(configures.message.replicas, 3u);
}

TEST(StepCommitConfigure, IgnoresAcknowledgementsOfAnotherGeneration) {
  state_machine commit_machine{4, one_process(1)};
  commit_machine.open();
  commit_machine.run(0, 1);
  EXPECT_TRUE(commit_machine.on(configured{0, 0, 1, 0}).empty());
  EXPECT_TRUE(commit_machine.on(configured{2, 0, 1, 0}).empty());
  EXPECT_EQ(commit_machine.behind(), ids{0});
  EXPECT_EQ(commit_machine.on(configured{1, 0, 1, 0}).size(), 1u);
}

TEST(StepCommitConfigure, DoesNotWaitForLostReplicas) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on(thrown(1, 0)));
  for (const std::uint32_t r : {0, 1, 2})
    d.acknowledge(r);
  EXPECT_EQ(d.machine.behind(), ids{3});
  EXPECT_EQ(d.count<aborted>(), 0u);
  d.record(d.machine.on_lost(3, "killed"));
  EXPECT_EQ(d.count<aborted>(), 1u);
  EXPECT_EQ(d.abort_report().kind, failure_kind::step_failed);
  EXPECT_EQ(d.abort_report().replicas, ids{0});
  EXPECT_EQ(d.abort_report().cause, "broken");
}

TEST(StepCommitConfigure, DoesNotWaitForALostProcess) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on(thrown(1, 0)));
  for (const std::uint32_t r : {0, 1})
    d.acknowledge(r);
  EXPECT_EQ(d.count<aborted>(), 0u);
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  EXPECT_EQ(d.count<aborted>(), 1u);
}

TEST(StepCommitConfigure, DoesNotWaitForAProcessLostBeforeTheFirstStep) {
  state_machine commit_machine{4, two};
  commit_machine.open();
  commit_machine.on(configured{1, 0, 1, 0});
  commit_machine.run(6, 9);
  const auto what =
    commit_machine.on_process_lost(1, ec::unreachable, "silent");
  EXPECT_EQ(std::get<send_configure>(what.at(0)).message.generation, 2u);
  EXPECT_TRUE(commit_machine.on(configured{2, 0, 1, 0}).empty());
  const auto end = commit_machine.on(configured{2, 1, 1, 0});
  ASSERT_EQ(end.size(), 1u) << "only live processes are waited for";
  EXPECT_EQ(std::get<aborted>(end[0]).report,
            (failure_report{
              .kind = failure_kind::process_lost_before_step,
              .code = ec::unreachable,
              .processes = {1},
              .replicas = {2, 3},
              .step = 6,
              .cause = "silent",
            }));
  const auto refused = commit_machine.run(6, 9);
  EXPECT_EQ(std::get<aborted>(refused.at(0)).report,
            (failure_report{
              .kind = failure_kind::replica_missing,
              .code = ec::peer_lost,
              .replicas = {2},
            }));
}

// -- reports ------------------------------------------------------------------

TEST(StepCommitReports, WithAnotherNumberOfMetricsAreProtocolErrors) {
  for (const std::size_t count : {2ul, max_step_sums + 1}) {
    chief_fixture d{one_process(2)};
    d.record(d.machine.run(0, 9));
    d.report_step(0, 0);
    d.record(d.machine.on(step_done{
      d.machine.generation(), 0, 1, 1, {1, std::vector<double>(count)}}));
    d.acknowledge_all();
    EXPECT_EQ(d.abort_report(), (failure_report{
                                  .kind = failure_kind::metrics_differ,
                                  .code = ec::protocol,
                                  .replicas = {1},
                                  .step = 0,
                                }));
  }
}

TEST(StepCommitReports, OfTheFirstStepNotGrantedAreProtocolErrors) {
  chief_fixture d{one_process(1)};
  d.record(d.machine.run(0, 9));
  d.report_step(0, 4);
  EXPECT_EQ(d.machine.generation(), 2u);
  d.acknowledge_all();
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::step_not_granted,
                                .code = ec::protocol,
                                .replicas = {0},
                                .step = 4,
                              }));
}

TEST(StepCommitReports, OfAnUnknownReplicaAreProtocolErrors) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(0, 9));
  d.report_step(2, 0);
  EXPECT_EQ(d.machine.generation(), 2u);
  d.acknowledge_all();
  EXPECT_EQ(d.effects_of<aborted>().at(0).report.code, ec::protocol);
}

TEST(StepCommitReports, OfTheLastGrantedStepCountOutOfOrder) {
  chief_fixture d{one_process(1)};
  d.record(d.machine.run(0, 9));
  for (const std::uint64_t step : {3, 2, 1})
    d.report_step(0, step);
  EXPECT_EQ(d.count<committed>(), 0u);
  d.report_step(0, 0);
  EXPECT_EQ(d.count<committed>(), 4u);
}

TEST(StepCommitReports, AreDiscardedWithTheirGeneration) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(0, 9));
  d.report_step(0, 0);
  d.report_step(1, 1);
  d.record(d.machine.end_with({}));
  d.acknowledge_all();
  d.record(d.machine.run(0, 9));
  EXPECT_EQ(d.machine.behind(), (ids{0, 1}));
  d.report_step(1, 0);
  EXPECT_EQ(d.count<committed>(), 0u);
  EXPECT_EQ(d.machine.behind(), ids{0});
  d.report_step(0, 0);
  EXPECT_EQ(d.count<committed>(), 1u);
}
