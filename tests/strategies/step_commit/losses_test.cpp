#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

// Process and step that are named when a run is aborted.

using namespace troupe;
using namespace troupe::commit;
using namespace troupe::commit::testing;

TEST(StepCommitFailures, OfAnotherGenerationOrAnUnknownReplicaAreIgnored) {
  desk d{2};
  d.keep(d.book.run(0, 9));
  for (const auto& [epoch, replica] :
       {std::pair{0u, 0u}, std::pair{2u, 0u}, std::pair{1u, 2u}})
    d.keep(d.book.on(failed{epoch, 0, replica, 1, cause::invalid, "not mine"}));
  EXPECT_EQ(d.book.epoch(), 1u);
  d.keep(d.book.on(failed{1, 0, 1, 1, cause::invalid, "mine"}));
  d.keep(d.book.on(failed{2, 0, 1, 1, cause::invalid, "it leaves already"}));
  EXPECT_EQ(d.book.epoch(), 2u);
  d.seat_all();
  EXPECT_EQ(d.why(), "mine");
}

TEST(StepCommitLosses, OfAReducerAbortTheRun) {
  desk d{2};
  d.keep(d.book.run(4, 9));
  d.commit_step(4);
  d.keep(d.book.on_reducer_lost(1, "killed"));
  d.keep(d.book.on_reducer_lost(0, "killed too"));
  d.seat_all();
  ASSERT_EQ(d.count<given_up>(), 1u);
  EXPECT_EQ(d.all<given_up>()[0].code, cause::lost);
  EXPECT_EQ(d.why(), "reducer 1 was lost in step 5: killed");
  EXPECT_EQ(d.book.epoch(), 2u);
}

TEST(StepCommitLosses, OfAReplicaWithoutARunAbortNothing) {
  desk d{2};
  EXPECT_TRUE(d.book.on_lost(1, "killed").empty());
  EXPECT_TRUE(d.book.on_lost(1, "killed").empty());
  EXPECT_EQ(d.book.epoch(), 1u);
  d.keep(d.book.run(0, 9));
  EXPECT_EQ(d.why(),
            "replica 1 is lost; the group cannot run a step without it");
  EXPECT_FALSE(d.book.busy());
}

TEST(StepCommitLosses, OfAReplicaAfterThatOfItsProcessChangeNothing) {
  desk d{4, two};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_process_lost(1, cause::lost, "closed"));
  EXPECT_TRUE(d.book.on_lost(2, "its actor ended").empty());
  EXPECT_TRUE(d.book.on_lost(0, "killed").empty())
    << "the run was aborted already";
  EXPECT_TRUE(d.book.probing());
  d.keep(d.book.on_late("1 s"));
  d.seat(1);
  ASSERT_EQ(d.count<given_up>(), 1u);
  EXPECT_EQ(d.why().find("worker 1 was lost in step 0: closed"), 0u);
}

TEST(StepCommitLosses, OfOneProcessKeepTheReplicasOfOthers) {
  desk d{4, two};
  EXPECT_TRUE(d.book.on_process_lost(0, cause::lost, "closed").empty());
  EXPECT_FALSE(d.book.busy()) << "without a run there is no probe";
  d.keep(d.book.run(0, 9));
  EXPECT_EQ(
    d.why(),
    "replica 0 of chief 0 is lost; the group cannot run a step without it");
  d.keep(d.book.on_lost(2, "killed"));
  EXPECT_EQ(d.count<given_up>(), 1u);
}

TEST(StepCommitLosses, OfASecondProcessKeepTheFirstReason) {
  desk d{3, {{"chief 0", "worker 1", "worker 2"}, {0, 1, 2, 3}}};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_process_lost(1, cause::lost, "closed"));
  EXPECT_TRUE(d.book.on_process_lost(2, cause::unreachable, "silent").empty());
  d.keep(d.book.on(blame{1, 0, false, 0, doing::sum, 3, {1, 2}}));
  d.keep(d.book.on_late("1 s"));
  d.seat(0);
  ASSERT_EQ(d.count<given_up>(), 1u);
  EXPECT_EQ(d.all<given_up>()[0].code, cause::lost);
  EXPECT_EQ(d.why(), "worker 1 was lost in step 0: closed; replica 0 waits for "
                     "the sum of bucket 3, still missing replicas 1, 2");
}

TEST(StepCommitLosses, NameTheFirstStepThatASurvivorDidNotReport) {
  desk d{4, two};
  d.keep(d.book.run(0, 9));
  for (const std::uint64_t step : {0, 1})
    for (const std::uint32_t r : {0, 1})
      d.report_step(r, step);
  d.report_step(0, 2);
  d.keep(d.book.on_process_lost(1, cause::lost, "closed"));
  EXPECT_EQ(d.all<send_probes>().back().to_all.step, 2u);
  EXPECT_EQ(d.book.behind(), ids{}) << "both have reported step 0";
}

TEST(StepCommitLosses, NameTheNextStepIfSurvivorsReportedAllGrantedSteps) {
  desk d{4, two};
  d.keep(d.book.run(0, 9));
  for (std::uint64_t step = 0; step < 4; ++step)
    for (const std::uint32_t r : {0, 1})
      d.report_step(r, step);
  d.keep(d.book.on_process_lost(1, cause::lost, "closed"));
  EXPECT_EQ(d.all<send_probes>().back().to_all.step, 0u);
}

TEST(StepCommitLosses, NameTheNextStepAtTheEndOfARun) {
  desk d{4, two};
  d.keep(d.book.run(0, 2));
  for (const std::uint64_t step : {0, 1})
    for (const std::uint32_t r : {0, 1})
      d.report_step(r, step);
  d.keep(d.book.on_process_lost(1, cause::lost, "closed"));
  EXPECT_EQ(d.all<send_probes>().back().to_all.step, 0u);
}

TEST(StepCommitLosses, OfTheOnlyReplicaAbortTheRunAtOnce) {
  desk d{1};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_lost(0, "killed"));
  EXPECT_EQ(d.why(), "replica 0 was lost in step 0: killed");
  EXPECT_FALSE(d.book.busy());
}

TEST(StepCommitPlacement, NamesAProcessOnlyIfThereAreSeveral) {
  const places one{{"this process"}, {0, 2}};
  EXPECT_EQ(one.name_of(1), "replica 1");
  EXPECT_EQ(two.name_of(1), "replica 1 of chief 0");
  EXPECT_EQ(two.name_of(2), "replica 2 of worker 1");
}
