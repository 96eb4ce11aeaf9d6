#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

// Tests which process and step the report of an abort names.

using namespace troupe;
using namespace troupe::step_commit;
using namespace troupe::step_commit::testing;

TEST(StepCommitFailures, OfAnotherGenerationOrAnUnknownReplicaAreIgnored) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(0, 9));
  for (const auto& [generation, replica] :
       {std::pair{0u, 0u}, std::pair{2u, 0u}, std::pair{1u, 2u}})
    d.record(d.machine.on(thrown(generation, replica, "not mine")));
  EXPECT_EQ(d.machine.generation(), 1u);
  d.record(d.machine.on(thrown(1, 1, "mine")));
  d.record(d.machine.on(thrown(2, 1, "it leaves already")));
  EXPECT_EQ(d.machine.generation(), 2u);
  d.acknowledge_all();
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::step_failed,
                                .code = ec::invalid,
                                .replicas = {1},
                                .cause = "mine",
                              }));
}

TEST(StepCommitLosses, OfAReducerAbortTheRun) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(4, 9));
  d.commit_step(4);
  d.record(d.machine.on_reducer_lost(1, "killed"));
  d.record(d.machine.on_reducer_lost(0, "killed too"));
  d.acknowledge_all();
  ASSERT_EQ(d.count<aborted>(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report.code, ec::peer_lost);
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::reducer_lost,
                                .code = ec::peer_lost,
                                .replicas = {1},
                                .step = 5,
                                .cause = "killed",
                              }));
  EXPECT_EQ(d.machine.generation(), 2u);
}

TEST(StepCommitLosses, OfAReplicaWithoutARunAbortNothing) {
  chief_fixture d{one_process(2)};
  EXPECT_TRUE(d.machine.on_lost(1, "killed").empty());
  EXPECT_TRUE(d.machine.on_lost(1, "killed").empty());
  EXPECT_EQ(d.machine.generation(), 1u);
  d.record(d.machine.run(0, 9));
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::replica_missing,
                                .code = ec::peer_lost,
                                .replicas = {1},
                              }));
  EXPECT_FALSE(d.machine.busy());
}

TEST(StepCommitLosses, OfAReplicaAfterThatOfItsProcessChangeNothing) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  EXPECT_TRUE(d.machine.on_lost(2, "its actor ended").empty());
  EXPECT_TRUE(d.machine.on_lost(0, "killed").empty())
    << "the run was aborted already";
  EXPECT_TRUE(d.machine.probing());
  d.record(d.machine.on_timeout(1000));
  d.acknowledge(1);
  ASSERT_EQ(d.count<aborted>(), 1u);
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::process_lost,
                                .code = ec::peer_lost,
                                .processes = {1},
                                .replicas = {2, 3},
                                .cause = "closed",
                                .unresponsive = {1},
                              }));
}

TEST(StepCommitLosses, OfOneProcessKeepTheReplicasOfOthers) {
  chief_fixture d{two};
  EXPECT_TRUE(d.machine.on_process_lost(0, ec::peer_lost, "closed").empty());
  EXPECT_FALSE(d.machine.busy()) << "without a run there is no probe";
  d.record(d.machine.run(0, 9));
  EXPECT_EQ(d.abort_report().kind, failure_kind::replica_missing);
  EXPECT_EQ(d.abort_report().replicas, ids{0});
  d.record(d.machine.on_lost(2, "killed"));
  EXPECT_EQ(d.count<aborted>(), 1u);
}

TEST(StepCommitLosses, OfASecondProcessKeepTheFirstReason) {
  chief_fixture d{placement::contiguous({1, 1, 1})};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  EXPECT_TRUE(d.machine.on_process_lost(2, ec::unreachable, "silent").empty());
  d.record(
    d.machine.on(wait_report{1, 0, false, 0, activity::all_reduce, 3, {1, 2}}));
  d.record(d.machine.on_timeout(1000));
  d.acknowledge(0);
  ASSERT_EQ(d.count<aborted>(), 1u);
  EXPECT_EQ(d.effects_of<aborted>()[0].report.code, ec::peer_lost);
  EXPECT_EQ(d.abort_report(),
            (failure_report{
              .kind = failure_kind::process_lost,
              .code = ec::peer_lost,
              .processes = {1},
              .replicas = {1},
              .cause = "closed",
              .waits = {{false, 0, activity::all_reduce, 3, {1, 2}}},
            }));
}

TEST(StepCommitLosses, NameTheFirstStepThatASurvivorDidNotReport) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  for (const std::uint64_t step : {0, 1})
    for (const std::uint32_t r : {0, 1})
      d.report_step(r, step);
  d.report_step(0, 2);
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 2u);
  EXPECT_EQ(d.machine.behind(), ids{}) << "both have reported step 0";
}

TEST(StepCommitLosses, NameTheNextStepIfSurvivorsReportedAllGrantedSteps) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  for (std::uint64_t step = 0; step < 4; ++step)
    for (const std::uint32_t r : {0, 1})
      d.report_step(r, step);
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 0u);
}

TEST(StepCommitLosses, NameTheNextStepAtTheEndOfARun) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 2));
  for (const std::uint64_t step : {0, 1})
    for (const std::uint32_t r : {0, 1})
      d.report_step(r, step);
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 0u);
}

TEST(StepCommitLosses, OfTheOnlyReplicaAbortTheRunAtOnce) {
  chief_fixture d{one_process(1)};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_lost(0, "killed"));
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::replica_lost,
                                .code = ec::peer_lost,
                                .replicas = {0},
                                .cause = "killed",
                              }));
  EXPECT_FALSE(d.machine.busy());
}
