#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

// Interface of the watchdog: progress since the last check, whether the
// watchdog must run, and which timeout applies.

using namespace troupe;
using namespace troupe::commit;
using namespace troupe::commit::testing;

namespace {

/// True if a call counts as progress.
template <class F>
bool moves(desk& d, F&& call) {
  const auto before = d.book.moves();
  d.keep(call());
  return d.book.moves() != before;
}

blame idle_blame(const desk& d, std::uint32_t replica, std::uint64_t step) {
  return {d.book.epoch(), step, false, replica, doing::idle, 0, {}};
}

} // namespace

// -- progress -----------------------------------------------------------------

TEST(StepCommitProgress, CountsAcknowledgementsRunsAndReportsOnce) {
  ledger book{2, 4};
  auto before = book.moves();
  const auto moved = [&] { return std::exchange(before, book.moves()); };
  book.open();
  EXPECT_NE(moved(), book.moves());
  for (int twice = 0; twice < 2; ++twice) {
    book.on(seated{1, 0, 1, 0});
    EXPECT_EQ(moved() == book.moves(), twice == 1);
  }
  book.on(seated{1, 2, 1, 0}); // unknown replica
  EXPECT_EQ(moved(), book.moves());
  book.run(0, 2);
  EXPECT_NE(moved(), book.moves());
  book.on(seated{1, 1, 1, 0});
  EXPECT_NE(moved(), book.moves());
  for (int twice = 0; twice < 2; ++twice) {
    book.on(report{1, 0, 0, 1, {}});
    EXPECT_EQ(moved() == book.moves(), twice == 1);
  }
}

/// Replies that a timeout asks for get a timeout of their own.
TEST(StepCommitProgress, CountsATimeoutInEveryPhase) {
  desk d{2};
  const auto late = [&] { return d.book.on_late("1 s"); };
  d.keep(d.book.run(0, 9));
  EXPECT_TRUE(moves(d, late)) << "it probes";
  EXPECT_TRUE(moves(d, late)) << "it aborts the run";
  EXPECT_TRUE(moves(d, late)) << "it sends configure again";
  EXPECT_TRUE(moves(d, late)) << "it stops waiting";
  EXPECT_EQ(d.count<given_up>(), 1u);
  d.keep(d.book.run(0, 9));
  EXPECT_TRUE(moves(d, late)) << "it sends configure again";
  EXPECT_TRUE(moves(d, late)) << "it stops waiting";
  EXPECT_EQ(d.count<given_up>(), 2u);
}

TEST(StepCommitProgress, CountsALossOnce) {
  desk d{4, two};
  const auto lose = [&](std::uint32_t r) {
    return moves(d, [&] { return d.book.on_lost(r, "killed"); });
  };
  EXPECT_TRUE(lose(3));
  EXPECT_FALSE(lose(3));
  EXPECT_TRUE(
    moves(d, [&] { return d.book.on_process_lost(1, cause::lost, "closed"); }));
  EXPECT_FALSE(lose(2)) << "it was lost with its process";
  EXPECT_TRUE(moves(d, [&] { return d.book.run(0, 1); })) << "it is rejected";
  EXPECT_EQ(d.count<given_up>(), 1u);
}

TEST(StepCommitProgress, CountsTheCallerOnlyIfReplicasWaitForIt) {
  desk d{1};
  d.keep(d.book.run(0, 100));
  const auto hear = [&](std::uint64_t next) {
    return moves(d, [&] { return d.book.heard(next); });
  };
  d.report_step(0, 0);
  EXPECT_FALSE(hear(1)) << "steps are granted";
  for (std::uint64_t s = 1; s < 9; ++s)
    d.report_step(0, s);
  ASSERT_FALSE(d.book.busy()) << "all granted steps are committed";
  EXPECT_FALSE(hear(1)) << "repeated";
  EXPECT_TRUE(hear(2));
  EXPECT_TRUE(d.book.busy());
}

// -- timeouts -----------------------------------------------------------------

TEST(StepCommitWatchdog, UsesTheLongTimeoutAfterReplicasAreConfigured) {
  desk d{2};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on(failed{1, 0, 0, 1, cause::invalid, "broken"}));
  EXPECT_FALSE(d.book.probing());
  d.keep(d.book.on_late("1 s"));
  EXPECT_TRUE(d.book.probing()) << "configure was sent again";
  d.seat_all();
  EXPECT_FALSE(d.book.probing());
  EXPECT_FALSE(d.book.busy());
}

TEST(StepCommitWatchdog, ResendsConfigureInEveryGeneration) {
  desk d{2};
  for (int i = 0; i < 2; ++i) {
    d.keep(d.book.run(0, 9));
    d.keep(
      d.book.on(failed{d.book.epoch(), 0, 0, 1, cause::invalid, "broken"}));
    const auto before = d.count<send_seats>();
    d.keep(d.book.on_late("1 s"));
    EXPECT_EQ(d.count<send_seats>(), before + 1);
    d.keep(d.book.on_late("1 s"));
    EXPECT_EQ(d.count<send_seats>(), before + 1) << "once is enough";
    EXPECT_EQ(d.count<given_up>(), std::size_t(i + 1));
    EXPECT_FALSE(d.book.probing());
    d.seat_all();
  }
}

TEST(StepCommitWatchdog, ResendsConfigureAgainInTheNextGeneration) {
  ledger book{2, 4};
  book.open();
  book.run(0, 9);
  book.on_late("1 s");
  EXPECT_TRUE(book.probing());
  book.on_lost(0, "killed");
  EXPECT_EQ(book.epoch(), 2u);
  EXPECT_FALSE(book.probing());
  const auto again = book.on_late("1 s");
  EXPECT_EQ(std::get<send_seats>(again.at(0)).whom,
            std::vector<std::uint32_t>{1});
}

TEST(StepCommitWatchdog, NamesReplicasThatDoNotAcknowledgeAndDropsTheRun) {
  ledger book{3, 4};
  book.open();
  book.on(seated{1, 1, 1, 0});
  book.run(7, 1);
  EXPECT_TRUE(book.busy());
  EXPECT_EQ(book.behind(), (std::vector<std::uint32_t>{0, 2}));
  const auto again = book.on_late("1 s");
  EXPECT_EQ(std::get<send_seats>(again.at(0)).to_all.epoch, 1u);
  EXPECT_EQ(std::get<send_seats>(again.at(0)).to_all.replicas, 3u);
  const auto end = book.on_late("1 s");
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(std::get<given_up>(end[0]).code, cause::stalled);
  EXPECT_EQ(std::get<given_up>(end[0]).why,
            "step 7 cannot begin: for 1 s replicas 0, 2 did not acknowledge "
            "generation 1 and may still be in an older step");
  EXPECT_FALSE(book.busy());
  EXPECT_FALSE(book.probing());
  EXPECT_TRUE(book.on_late("1 s").empty()) << "no run is active";
  book.on(seated{1, 0, 1, 0});
  EXPECT_TRUE(book.on(seated{1, 2, 1, 0}).empty()) << "the run was dropped";
}

TEST(StepCommitWatchdog, HasNoEffectAfterTheRunEnded) {
  desk d{2};
  EXPECT_TRUE(d.book.on_late("1 s").empty());
  d.keep(d.book.run(0, 1));
  d.commit_step(0);
  EXPECT_FALSE(d.book.busy());
  EXPECT_TRUE(d.book.on_late("1 s").empty());
  EXPECT_EQ(d.count<ended>(), 1u);
}

// -- probes -------------------------------------------------------------------

TEST(StepCommitProbe, IsRepeatedIfReportsOfSurvivorsArriveLate) {
  desk d{4, two};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_process_lost(1, cause::lost, "closed"));
  EXPECT_EQ(d.all<send_probes>().back().to_all.step, 0u);
  d.report_step(0, 0);
  d.report_step(1, 0);
  EXPECT_TRUE(d.book.probing()) << "lost replicas never report";
  d.keep(d.book.on(idle_blame(d, 0, 0)));
  d.keep(d.book.on(idle_blame(d, 1, 0)));
  ASSERT_EQ(d.count<send_probes>(), 2u);
  EXPECT_EQ(d.all<send_probes>().back().to_all.step, 1u);
  d.keep(d.book.on(idle_blame(d, 0, 0))); // answers the first probe
  d.keep(d.book.on(idle_blame(d, 0, 1)));
  EXPECT_EQ(d.book.epoch(), 1u) << "replica 1 has not answered this probe";
  d.keep(d.book.on(idle_blame(d, 1, 1)));
  EXPECT_EQ(d.book.epoch(), 2u);
  EXPECT_FALSE(d.book.probing());
  d.seat(0);
  d.seat(1);
  EXPECT_EQ(d.why(), "worker 1 was lost in step 1: closed; replica 0 has "
                     "nothing to do; replica 1 has nothing to do");
}

TEST(StepCommitProbe, EndsWithTheFailureOfAReplicaAfterAProcessIsLost) {
  desk d{4, two};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_process_lost(1, cause::unreachable, "silent"));
  d.keep(d.book.on(failed{1, 0, 0, 1, cause::invalid, "no such file"}));
  d.seat(0);
  d.seat(1);
  ASSERT_EQ(d.count<given_up>(), 1u);
  EXPECT_EQ(d.all<given_up>()[0].code, cause::unreachable);
  EXPECT_EQ(d.why(), "worker 1 was lost in step 0: silent; no such file");
}

TEST(StepCommitProbe, AcceptsReportsOfItsStepAndGenerationOnly) {
  desk d{2};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_late("1 s"));
  for (const auto& [epoch, step] :
       {std::pair{0u, 0u}, std::pair{2u, 0u}, std::pair{1u, 1u}})
    d.keep(d.book.on(blame{epoch, step, false, 0, doing::computing, 0, {}}));
  d.keep(d.book.on_late("1 s"));
  d.keep(d.book.on(blame{2, 0, false, 0, doing::computing, 0, {}}));
  d.seat_all();
  EXPECT_EQ(d.why(),
            "step 0 stalled for 1 s: replicas 0, 1 do not answer: they are in "
            "the step function, or their processes are stopped");
}

TEST(StepCommitProbe, DistinguishesAReducerFromTheReplicaOfTheSameId) {
  desk d{2};
  d.keep(d.book.run(0, 9));
  d.report_step(1, 0);
  d.keep(d.book.on_late("1 s"));
  d.keep(d.book.on(blame{1, 0, true, 0, doing::adding, 5, {}}));
  d.keep(d.book.on(blame{1, 0, true, 9, doing::idle, 0, {}}));
  d.keep(d.book.on(blame{1, 0, false, 1, doing::idle, 0, {}})); // has reported
  d.keep(d.book.on(blame{1, 0, true, 2, doing::idle, 0, {}}));
  d.keep(
    d.book.on(blame{1, 0, false, 2, doing::idle, 0, {}})); // unknown replica
  d.keep(d.book.on_late("1 s"));
  d.seat_all();
  EXPECT_EQ(d.why(),
            "step 0 stalled for 1 s: reducer 0 cannot finish the sum of bucket "
            "5; replica 0 does not answer: it is in the step function, or its "
            "process is stopped");
}
