#include "troupe/strategies/membership/run_barrier.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::run_barrier;

namespace {

state_machine three_members() {
  return state_machine{3};
}

const failure_report loss_of_worker_2{
  .kind = failure_kind::process_lost_between_runs,
  .code = ec::unreachable,
  .processes = {2},
  .cause = "silent for 1 s",
};

bool starts(const reaction& x) {
  return x.size() == 1 && std::holds_alternative<start>(x[0]);
}

/// Returns the effects. @pre all effects are rejections.
std::vector<reject> rejections(const reaction& x) {
  std::vector<reject> out;
  for (const auto& one : x)
    out.push_back(std::get<reject>(one));
  return out;
}

} // namespace

TEST(RunBarrier, StartsWhenAllProcessesRequestTheSameRun) {
  auto machine = three_members();
  EXPECT_TRUE(machine.on(join{1, 1, 0, 10}).empty());
  EXPECT_TRUE(machine.on(join{0, 1, 0, 10}).empty());
  EXPECT_TRUE(machine.on(join{0, 1, 0, 10}).empty()) << "repeated";
  EXPECT_EQ(machine.waiting(), 1u);
  EXPECT_TRUE(starts(machine.on(join{2, 1, 0, 10})));
  EXPECT_FALSE(machine.waiting());
  EXPECT_TRUE(machine.on(join{2, 1, 0, 10}).empty()) << "the run is active";
  machine.finished();
  EXPECT_TRUE(machine.on(join{0, 2, 10, 5}).empty());
  EXPECT_TRUE(machine.on(join{1, 2, 10, 5}).empty());
  EXPECT_TRUE(starts(machine.on(join{2, 2, 10, 5})));
}

TEST(RunBarrier, NamesBothProcessesThatRequestDifferentSteps) {
  auto machine = three_members();
  machine.on(join{1, 1, 0, 10});
  const auto no = rejections(machine.on(join{2, 1, 0, 11}));
  ASSERT_EQ(no.size(), 3u);
  EXPECT_EQ(no[2].process, 0u) << "it can still ask for the run";
  EXPECT_EQ(no[2].run, 1u);
  for (const auto& x : no)
    EXPECT_EQ(x.report, (failure_report{
                          .kind = failure_kind::runs_differ,
                          .code = ec::protocol,
                          .processes = {1, 2},
                          .requests = {{1, 1, 0, 10}, {2, 1, 0, 11}},
                        }));
  const auto later = rejections(machine.on(join{0, 1, 0, 10}));
  ASSERT_EQ(later.size(), 1u) << "the third process is rejected when it joins";
  EXPECT_EQ(later[0].process, 0u);
  EXPECT_EQ(later[0].report, no[0].report);
}

TEST(RunBarrier, NamesBothCallsOfProcessesThatMakeDifferentOnes) {
  for (const auto& other : {requesting_call{.name = "evaluate", .number = 4},
                            requesting_call{.name = "save", .number = 5}}) {
    auto machine = three_members();
    const requesting_call call{.name = "save", .number = 4};
    machine.on(join{2, 1, 0, 1, 0, call});
    const auto no = rejections(machine.on(join{1, 1, 0, 1, 0, other}));
    ASSERT_EQ(no.size(), 3u);
    for (const auto& x : no)
      EXPECT_EQ(x.report,
                (failure_report{
                  .kind = failure_kind::runs_differ,
                  .code = ec::protocol,
                  .processes = {2, 1},
                  .requests = {{2, 1, 0, 1, call}, {1, 1, 0, 1, other}},
                }));
  }
}

TEST(RunBarrier, StartsTheRunOfACallAlthoughACallbackHasFailed) {
  auto machine = three_members();
  for (const std::uint32_t p : {0, 1})
    machine.on(join{p, 1, 0, 1, 0, {.name = "fit", .number = 2}});
  EXPECT_TRUE(starts(machine.on(
    join{2, 1, 0, 1, 0, {.name = "fit", .number = 2, .failure = "no space"}})));
}

TEST(RunBarrier, LimitsTheTextsOfItsReports) {
  auto machine = three_members();
  machine.on(join{0, 1, 0, 1, 0, {.name = std::string(1000, 'x')}});
  const auto no = rejections(machine.on(
    join{1, 1, 0, 1, 0, {.failure = std::string(2 * max_cause_bytes, 'x')}}));
  ASSERT_EQ(no.size(), 3u);
  EXPECT_TRUE(is_possible(no[0].report, 3, 3));
}

TEST(RunBarrier, EndsTheActiveRunWhenItIsStopped) {
  auto machine = three_members();
  for (std::uint32_t p = 0; p < 3; ++p)
    machine.on(join{p, 1, 0, 10});
  const auto what = machine.on(stop{1, 1});
  ASSERT_EQ(what.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<halt>(what[0]));
}

TEST(RunBarrier, ALateStopDoesNotEndTheNextRun) {
  auto machine = three_members();
  for (std::uint32_t p = 0; p < 3; ++p)
    machine.on(join{p, 1, 0, 10});
  machine.finished();
  EXPECT_TRUE(machine.on(stop{2, 1}).empty()) << "no run is active";
  machine.on(join{0, 2, 10, 5});
  EXPECT_TRUE(machine.on(stop{1, 1}).empty()) << "run 2 has not started";
  machine.on(join{1, 2, 10, 5});
  const auto what = machine.on(join{2, 2, 10, 5});
  ASSERT_TRUE(starts(what));
  EXPECT_FALSE(std::get<start>(what[0]).stopped);
  EXPECT_TRUE(machine.on(stop{1, 1}).empty()) << "run 2 is active";
  EXPECT_TRUE(machine.on(stop{3, 2}).empty()) << "there is no process 3";
  EXPECT_EQ(machine.on(stop{1, 2}).size(), 1u);
}

TEST(RunBarrier, ARunThatIsStoppedBeforeItStartsStartsStopped) {
  auto machine = three_members();
  machine.on(stop{1, 1}); // arrives before the join of its process
  machine.on(join{0, 1, 0, 10});
  machine.on(join{1, 1, 0, 10});
  const auto what = machine.on(join{2, 1, 0, 10});
  ASSERT_TRUE(starts(what));
  EXPECT_TRUE(std::get<start>(what[0]).stopped);
  machine.finished();
  for (std::uint32_t p = 0; p < 2; ++p)
    machine.on(join{p, 2, 10, 5});
  EXPECT_FALSE(std::get<start>(machine.on(join{2, 2, 10, 5})[0]).stopped);
}

TEST(RunBarrier, StartsTheNextRunAfterOneWasRejected) {
  auto machine = three_members();
  machine.on(join{0, 1, 0, 1});
  machine.on_timeout(1000);
  for (std::uint32_t p = 0; p < 2; ++p)
    EXPECT_EQ(rejections(machine.on(join{p + 1, 1, 0, 1})).at(0).process,
              p + 1);
  machine.on(join{0, 2, 0, 1});
  machine.on(join{1, 2, 0, 1});
  EXPECT_TRUE(starts(machine.on(join{2, 2, 0, 1})));
}

TEST(RunBarrier, NamesTheProcessesThatDidNotJoin) {
  auto machine = three_members();
  machine.on(join{0, 1, 4, 1});
  const auto no = rejections(machine.on_timeout(1000));
  ASSERT_EQ(no.size(), 1u);
  EXPECT_EQ(no[0].process, 0u);
  EXPECT_EQ(no[0].report, (failure_report{
                            .kind = failure_kind::run_not_joined,
                            .code = ec::stalled,
                            .processes = {1, 2},
                            .timeout_ms = 1000,
                            .requests = {{0, 1, 4, 5}},
                          }));
  EXPECT_TRUE(machine.on_timeout(1000).empty());
}

TEST(RunBarrier, StartsNoRunAfterAProcessWasLost) {
  auto machine = three_members();
  machine.on(join{0, 1, 0, 1});
  const auto no =
    rejections(machine.on_lost(2, ec::unreachable, "silent for 1 s"));
  ASSERT_EQ(no.size(), 1u);
  EXPECT_EQ(no[0].report, loss_of_worker_2);
  EXPECT_EQ(rejections(machine.on(join{1, 1, 0, 1})).at(0).report,
            loss_of_worker_2);
  EXPECT_EQ(rejections(machine.on(join{1, 2, 0, 1})).at(0).report,
            loss_of_worker_2);
}

/// A process that has heard of the rejection may end before others have asked
/// for the run.
TEST(RunBarrier, TellsALateProcessThatTheRequestsDifferedAlsoAfterALoss) {
  auto machine = three_members();
  machine.on(join{0, 1, 0, 1});
  const auto first = rejections(machine.on(join{1, 1, 0, 2})).at(0).report;
  EXPECT_EQ(first.kind, failure_kind::runs_differ);
  EXPECT_TRUE(machine.on_lost(1, ec::peer_lost, "").empty());
  EXPECT_EQ(rejections(machine.on(join{2, 1, 0, 1})).at(0).report, first);
  EXPECT_EQ(rejections(machine.on(join{2, 2, 0, 1})).at(0).report.kind,
            failure_kind::process_lost_between_runs);
}

TEST(RunBarrier, KeepsTheFirstLoss) {
  auto machine = three_members();
  machine.on_lost(2, ec::unreachable, "silent for 1 s");
  machine.on_lost(1, ec::peer_lost, "");
  EXPECT_EQ(rejections(machine.on(join{0, 1, 0, 1})).at(0).report,
            loss_of_worker_2);
}

TEST(RunBarrier, AbortsARunThatAProcessLeft) {
  state_machine machine{2};
  machine.on(join{0, 1, 0, 10});
  machine.on(join{1, 1, 0, 10});
  const auto effects = machine.on(join{1, 2, 0, 3});
  ASSERT_EQ(effects.size(), 2u);
  const failure_report report{
    .kind = failure_kind::run_left,
    .code = ec::protocol,
    .processes = {1},
    .run = 1,
    .requests = {{1, 2, 0, 3}},
  };
  EXPECT_EQ(std::get<run_barrier::abort>(effects[0]).report, report);
  EXPECT_EQ(std::get<reject>(effects[1]).run, 2u);
  machine.finished();
  EXPECT_EQ(rejections(machine.on(join{0, 2, 0, 3})).at(0).report, report);
}

TEST(RunBarrier, IgnoresAnUnknownProcess) {
  auto machine = three_members();
  machine.on({0, 1, 0, 10});
  EXPECT_TRUE(machine.on({3, 1'000'000, 0, 99}).empty());
  EXPECT_EQ(machine.missing(), (std::vector<std::uint32_t>{1, 2}));
}

TEST(RunBarrier, WaitsForNoProcessIfNoneJoined) {
  auto machine = three_members();
  EXPECT_FALSE(machine.waiting());
  EXPECT_TRUE(machine.missing().empty());
  EXPECT_TRUE(machine.on_timeout(1000).empty());
}

TEST(RunBarrier, ComparesRunFirstStepAndSteps) {
  for (const auto& other :
       {join{2, 2, 4, 10}, join{2, 1, 5, 10}, join{2, 1, 4, 9}}) {
    auto machine = three_members();
    EXPECT_TRUE(machine.on({1, 1, 4, 10}).empty());
    EXPECT_EQ(rejections(machine.on(other)).size(), 3u);
    EXPECT_FALSE(machine.waiting());
  }
}

TEST(RunBarrier, UsesTheLastRequestOfAProcess) {
  auto machine = three_members();
  EXPECT_TRUE(machine.on({0, 1, 0, 10}).empty());
  EXPECT_TRUE(machine.on({0, 2, 7, 5}).empty());
  EXPECT_TRUE(machine.on({0, 1, 0, 10}).empty()) << "an older run";
  EXPECT_TRUE(machine.on({1, 2, 7, 5}).empty());
  EXPECT_TRUE(starts(machine.on({2, 2, 7, 5})));
}

TEST(RunBarrier, RejectsALateJoinOfAnOlderRun) {
  auto machine = three_members();
  for (const std::uint64_t run : {1, 2}) {
    machine.on({0, run, 0, 1});
    machine.on_timeout(1000);
  }
  const auto first = rejections(machine.on({1, 1, 0, 1}));
  EXPECT_EQ(first.at(0).report, (failure_report{
                                  .kind = failure_kind::run_ended,
                                  .code = ec::protocol,
                                  .processes = {1},
                                  .run = 1,
                                }));
  const auto second = rejections(machine.on({1, 2, 0, 1}));
  EXPECT_EQ(second.at(0).report.code, ec::stalled);
  EXPECT_EQ(second.at(0).run, 2u);
}

TEST(RunBarrier, AbortsTheActiveRunOnce) {
  auto machine = three_members();
  for (const std::uint32_t p : {0, 1, 2})
    machine.on({p, 1, 0, 10});
  EXPECT_EQ(machine.on({1, 2, 0, 3}).size(), 2u);
  const auto other = rejections(machine.on({2, 2, 0, 3}));
  ASSERT_EQ(other.size(), 1u)
    << "that run is rejected, the first was aborted already";
  EXPECT_EQ(other[0].process, 2u);
}

TEST(RunBarrier, GivesTheLossAsTheReasonToAProcessThatLeavesARun) {
  auto machine = three_members();
  for (const std::uint32_t p : {0, 1, 2})
    machine.on({p, 1, 0, 10});
  machine.on_lost(2, ec::unreachable, "silent for 1 s");
  const auto what = machine.on({1, 2, 0, 3});
  ASSERT_EQ(what.size(), 2u);
  EXPECT_EQ(std::get<reject>(what[1]).report, loss_of_worker_2);
}

TEST(RunBarrier, NamesTheLargestStepAsTheEndOfAnEndlessRun) {
  auto machine = three_members();
  machine.on({0, 1, 4, ~std::uint64_t{0}});
  EXPECT_EQ(rejections(machine.on_timeout(1000)).at(0).report.requests,
            (std::vector<requested_run>{{0, 1, 4, ~std::uint64_t{0}}}));
}
