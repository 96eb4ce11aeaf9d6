#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

#include <limits>

// Limits of everything that the state machine counts, and unexpected messages.

using namespace troupe;
using namespace troupe::commit;
using namespace troupe::commit::testing;

// -- runs ---------------------------------------------------------------------

TEST(StepCommitRun, WithoutStepsCompletesAtOnce) {
  desk d{2};
  d.keep(d.book.run(5, 0));
  ASSERT_EQ(d.count<ended>(), 1u);
  EXPECT_EQ(d.all<ended>()[0].next, 5u);
  EXPECT_EQ(d.count<send_orders>(), 0u);
  EXPECT_FALSE(d.book.busy());
}

TEST(StepCommitRun, CompletesOnce) {
  desk d{2};
  d.keep(d.book.run(0, 2));
  d.commit_step(0);
  for (std::uint32_t r = 0; r < 2; ++r)
    d.report_step(r, 1);
  EXPECT_EQ(d.count<ended>(), 1u);
  EXPECT_TRUE(d.book.heard(2).empty());
  EXPECT_TRUE(d.book.stop().empty());
  EXPECT_TRUE(d.book.on(report{1, 2, 0, 1, {}}).empty());
  EXPECT_TRUE(d.book.on(failed{1, 2, 0, 1, cause::invalid, "late"}).empty());
  EXPECT_EQ(d.count<send_grants>(), 0u) << "start_steps granted all steps";
  EXPECT_EQ(d.book.next(), 2u);
}

TEST(StepCommitRun, MayHaveTheLargestNumberOfSteps) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(end_of(10, 5), 15u);
  EXPECT_EQ(end_of(10, most), most);
  EXPECT_EQ(end_of(10, most - 10), most);
  EXPECT_EQ(end_of(10, most - 11), most - 1);
}

TEST(StepCommitRun, GrantsOneStepAtATimeUnlessTheWindowIsWide) {
  for (const std::uint64_t lease : {1, 2, 3, 4, 7})
    EXPECT_EQ(at_once(lease), 1u) << lease;
  EXPECT_EQ(at_once(8), 2u);
  EXPECT_EQ(at_once(16), 4u);
}

TEST(StepCommitRun, GrantsThePartialBatchBeforeReplicasWaitForIt) {
  desk d{1, {}, 16};
  d.keep(d.book.run(0, 18));
  d.commit_step(0);
  EXPECT_EQ(d.count<send_grants>(), 0u) << "one step is less than a quarter";
  d.commit_step(1);
  ASSERT_EQ(d.count<send_grants>(), 1u);
  EXPECT_EQ(d.all<send_grants>()[0].to_all.until, 18u);
}

TEST(StepCommitRun, CanBeStoppedBeforeReplicasAreConfigured) {
  ledger book{2, 4};
  book.open();
  book.on(seated{1, 0, 1, 0});
  book.run(3, 9);
  EXPECT_TRUE(book.stop().empty());
  const auto what = book.on(seated{1, 1, 1, 0});
  ASSERT_EQ(what.size(), 1u);
  EXPECT_EQ(std::get<ended>(what[0]).next, 3u);
}

TEST(StepCommitRun, CanBeAbortedForAnExternalReason) {
  desk d{2};
  EXPECT_TRUE(d.book.end_with(cause::protocol, "too early").empty());
  d.keep(d.book.run(0, 9));
  d.keep(d.book.end_with(cause::protocol, "another run"));
  EXPECT_EQ(d.book.epoch(), 2u);
  EXPECT_TRUE(d.book.end_with(cause::protocol, "said twice").empty());
  EXPECT_EQ(d.count<given_up>(), 0u);
  d.seat_all();
  ASSERT_EQ(d.count<given_up>(), 1u);
  EXPECT_EQ(d.all<given_up>()[0].code, cause::protocol);
  EXPECT_EQ(d.why(), "another run");
}

TEST(StepCommitRun, NeedsNoNewGenerationIfNoStepWasGranted) {
  desk d{1};
  d.keep(d.book.run(3, 9));
  d.keep(d.book.end_with(cause::invalid, "broken"));
  d.seat_all();
  EXPECT_EQ(d.book.epoch(), 2u);
  d.keep(d.book.run(0, 1));
  EXPECT_EQ(d.book.epoch(), 2u) << "no step of that generation was granted";
  EXPECT_EQ(d.all<send_orders>().back().to_all.epoch, 2u);
}

// -- configuration ------------------------------------------------------------

TEST(StepCommitConfigure, IsSentToAllReplicasFirst) {
  ledger book{3, 4};
  const auto what = book.open();
  ASSERT_EQ(what.size(), 1u);
  const auto& seats = std::get<send_seats>(what[0]);
  EXPECT_EQ(seats.whom, (ids{0, 1, 2}));
  EXPECT_EQ(seats.to_all.epoch, 1u);
  EXPECT_EQ(seats.to_all.replicas, 3u);
}

TEST(StepCommitConfigure, IgnoresAcknowledgementsOfAnotherGeneration) {
  ledger book{1, 4};
  book.open();
  book.run(0, 1);
  EXPECT_TRUE(book.on(seated{0, 0, 1, 0}).empty());
  EXPECT_TRUE(book.on(seated{2, 0, 1, 0}).empty());
  EXPECT_EQ(book.behind(), ids{0});
  EXPECT_EQ(book.on(seated{1, 0, 1, 0}).size(), 1u);
}

TEST(StepCommitConfigure, DoesNotWaitForLostReplicas) {
  desk d{4, two};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on(failed{1, 0, 0, 1, cause::invalid, "broken"}));
  for (const std::uint32_t r : {0, 1, 2})
    d.seat(r);
  EXPECT_EQ(d.book.behind(), ids{3});
  EXPECT_EQ(d.count<given_up>(), 0u);
  d.keep(d.book.on_lost(3, "killed"));
  EXPECT_EQ(d.count<given_up>(), 1u);
  EXPECT_EQ(d.why(), "replica 0 of chief 0 failed in step 0: broken");
}

TEST(StepCommitConfigure, DoesNotWaitForALostProcess) {
  desk d{4, two};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on(failed{1, 0, 0, 1, cause::invalid, "broken"}));
  for (const std::uint32_t r : {0, 1})
    d.seat(r);
  EXPECT_EQ(d.count<given_up>(), 0u);
  d.keep(d.book.on_process_lost(1, cause::lost, "closed"));
  EXPECT_EQ(d.count<given_up>(), 1u);
}

TEST(StepCommitConfigure, DoesNotWaitForAProcessLostBeforeTheFirstStep) {
  ledger book{4, 4, two};
  book.open();
  book.on(seated{1, 0, 1, 0});
  book.run(6, 9);
  const auto what = book.on_process_lost(1, cause::unreachable, "silent");
  EXPECT_EQ(std::get<send_seats>(what.at(0)).to_all.epoch, 2u);
  EXPECT_TRUE(book.on(seated{2, 0, 1, 0}).empty());
  const auto end = book.on(seated{2, 1, 1, 0});
  ASSERT_EQ(end.size(), 1u) << "only live processes are waited for";
  EXPECT_EQ(std::get<given_up>(end[0]).code, cause::unreachable);
  EXPECT_EQ(std::get<given_up>(end[0]).why,
            "worker 1 was lost before step 6: silent");
  const auto refused = book.run(6, 9);
  EXPECT_EQ(
    std::get<given_up>(refused.at(0)).why,
    "replica 2 of worker 1 is lost; the group cannot run a step without it");
}

// -- reports ------------------------------------------------------------------

TEST(StepCommitReports, OfTheFirstStepNotGrantedAreProtocolErrors) {
  desk d{1};
  d.keep(d.book.run(0, 9));
  d.report_step(0, 4);
  EXPECT_EQ(d.book.epoch(), 2u);
  d.seat_all();
  EXPECT_EQ(d.all<given_up>().at(0).code, cause::protocol);
  EXPECT_EQ(d.why(), "replica 0 reported step 4, which it was not granted");
}

TEST(StepCommitReports, OfAnUnknownReplicaAreProtocolErrors) {
  desk d{2};
  d.keep(d.book.run(0, 9));
  d.report_step(2, 0);
  EXPECT_EQ(d.book.epoch(), 2u);
  d.seat_all();
  EXPECT_EQ(d.all<given_up>().at(0).code, cause::protocol);
}

TEST(StepCommitReports, OfTheLastGrantedStepCountOutOfOrder) {
  desk d{1};
  d.keep(d.book.run(0, 9));
  for (const std::uint64_t step : {3, 2, 1})
    d.report_step(0, step);
  EXPECT_EQ(d.count<committed>(), 0u);
  d.report_step(0, 0);
  EXPECT_EQ(d.count<committed>(), 4u);
}

TEST(StepCommitReports, AreDiscardedWithTheirGeneration) {
  desk d{2};
  d.keep(d.book.run(0, 9));
  d.report_step(0, 0);
  d.report_step(1, 1);
  d.keep(d.book.end_with(cause::invalid, "broken"));
  d.seat_all();
  d.keep(d.book.run(0, 9));
  EXPECT_EQ(d.book.behind(), (ids{0, 1}));
  d.report_step(1, 0);
  EXPECT_EQ(d.count<committed>(), 0u);
  EXPECT_EQ(d.book.behind(), ids{0});
  d.report_step(0, 0);
  EXPECT_EQ(d.count<committed>(), 1u);
}
