#include "troupe/strategies/membership/run_barrier.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::muster;

namespace {

machine of_three() {
  return machine{{"chief 0", "worker 1", "worker 2"}};
}

bool begins(const reaction& x) {
  return x.size() == 1 && std::holds_alternative<begin>(x[0]);
}

/// @returns the rejections; empty unless all effects are rejections.
std::vector<refuse> refusals(const reaction& x) {
  std::vector<refuse> out;
  for (const auto& one : x)
    out.push_back(std::get<refuse>(one));
  return out;
}

} // namespace

TEST(RunBarrier, StartsWhenAllProcessesRequestTheSameRun) {
  auto it = of_three();
  EXPECT_TRUE(it.on(join{1, 1, 0, 10}).empty());
  EXPECT_TRUE(it.on(join{0, 1, 0, 10}).empty());
  EXPECT_TRUE(it.on(join{0, 1, 0, 10}).empty()) << "repeated";
  EXPECT_EQ(it.waiting(), 1u);
  EXPECT_TRUE(begins(it.on(join{2, 1, 0, 10})));
  EXPECT_FALSE(it.waiting());
  EXPECT_TRUE(it.on(join{2, 1, 0, 10}).empty()) << "the run is active";
  it.over();
  EXPECT_TRUE(it.on(join{0, 2, 10, 5}).empty());
  EXPECT_TRUE(it.on(join{1, 2, 10, 5}).empty());
  EXPECT_TRUE(begins(it.on(join{2, 2, 10, 5})));
}

TEST(RunBarrier, NamesBothProcessesThatRequestDifferentSteps) {
  auto it = of_three();
  it.on(join{1, 1, 0, 10});
  const auto no = refusals(it.on(join{2, 1, 0, 11}));
  ASSERT_EQ(no.size(), 2u);
  for (const auto& x : no) {
    EXPECT_EQ(x.code, commit::cause::protocol);
    EXPECT_EQ(x.why, "worker 1 requests steps [0, 10) as its run 1, but worker "
                     "2 requests steps [0, 11) as its run 1");
  }
  const auto later = refusals(it.on(join{0, 1, 0, 10}));
  ASSERT_EQ(later.size(), 1u) << "the third process is rejected when it joins";
  EXPECT_EQ(later[0].whom, 0u);
  EXPECT_EQ(later[0].why, no[0].why);
}

TEST(RunBarrier, EndsTheActiveRunWhenItIsStopped) {
  auto it = of_three();
  for (std::uint32_t p = 0; p < 3; ++p)
    it.on(join{p, 1, 0, 10});
  const auto what = it.on(stop{1, 1});
  ASSERT_EQ(what.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<halt>(what[0]));
}

TEST(RunBarrier, ALateStopDoesNotEndTheNextRun) {
  auto it = of_three();
  for (std::uint32_t p = 0; p < 3; ++p)
    it.on(join{p, 1, 0, 10});
  it.over();
  EXPECT_TRUE(it.on(stop{2, 1}).empty()) << "no run is active";
  it.on(join{0, 2, 10, 5});
  EXPECT_TRUE(it.on(stop{1, 1}).empty()) << "run 2 has not started";
  it.on(join{1, 2, 10, 5});
  const auto what = it.on(join{2, 2, 10, 5});
  ASSERT_TRUE(begins(what));
  EXPECT_FALSE(std::get<begin>(what[0]).stopped);
  EXPECT_TRUE(it.on(stop{1, 1}).empty()) << "run 2 is active";
  EXPECT_TRUE(it.on(stop{3, 2}).empty()) << "there is no process 3";
  EXPECT_EQ(it.on(stop{1, 2}).size(), 1u);
}

TEST(RunBarrier, ARunThatIsStoppedBeforeItStartsStartsStopped) {
  auto it = of_three();
  it.on(stop{1, 1}); // arrives before the join of its process
  it.on(join{0, 1, 0, 10});
  it.on(join{1, 1, 0, 10});
  const auto what = it.on(join{2, 1, 0, 10});
  ASSERT_TRUE(begins(what));
  EXPECT_TRUE(std::get<begin>(what[0]).stopped);
  it.over();
  for (std::uint32_t p = 0; p < 2; ++p)
    it.on(join{p, 2, 10, 5});
  EXPECT_FALSE(std::get<begin>(it.on(join{2, 2, 10, 5})[0]).stopped);
}

TEST(RunBarrier, StartsTheNextRunAfterOneWasRejected) {
  auto it = of_three();
  it.on(join{0, 1, 0, 1});
  it.on_late("1000 ms");
  for (std::uint32_t p = 0; p < 2; ++p)
    EXPECT_EQ(refusals(it.on(join{p + 1, 1, 0, 1})).at(0).whom, p + 1);
  it.on(join{0, 2, 0, 1});
  it.on(join{1, 2, 0, 1});
  EXPECT_TRUE(begins(it.on(join{2, 2, 0, 1})));
}

TEST(RunBarrier, NamesTheProcessesThatDidNotJoin) {
  auto it = of_three();
  it.on(join{0, 1, 4, 1});
  const auto no = refusals(it.on_late("1000 ms"));
  ASSERT_EQ(no.size(), 1u);
  EXPECT_EQ(no[0].whom, 0u);
  EXPECT_EQ(no[0].code, commit::cause::stalled);
  EXPECT_EQ(no[0].why, "steps [4, 5) as its run 1 cannot begin: for 1000 ms "
                       "worker 1 and worker 2 did not join");
  EXPECT_TRUE(it.on_late("1000 ms").empty());
}

TEST(RunBarrier, StartsNoRunAfterAProcessWasLost) {
  auto it = of_three();
  it.on(join{0, 1, 0, 1});
  const auto no =
    refusals(it.on_lost(2, commit::cause::unreachable, "silent for 1 s"));
  ASSERT_EQ(no.size(), 1u);
  EXPECT_EQ(no[0].code, commit::cause::unreachable);
  EXPECT_EQ(
    no[0].why,
    "worker 2 is lost, and no run can start without it: silent for 1 s");
  EXPECT_EQ(refusals(it.on(join{1, 1, 0, 1})).at(0).why, no[0].why);
  EXPECT_EQ(refusals(it.on(join{1, 2, 0, 1})).at(0).why, no[0].why);
}

TEST(RunBarrier, AbortsARunThatAProcessLeft) {
  machine it{{"chief 0", "worker 1"}};
  it.on(join{0, 1, 0, 10});
  it.on(join{1, 1, 0, 10});
  const auto what = it.on(join{1, 2, 0, 3});
  ASSERT_EQ(what.size(), 2u);
  const std::string why =
    "worker 1 left run 1 and requests steps [0, 3) as its run 2";
  EXPECT_EQ(std::get<abandon>(what[0]).why, why);
  EXPECT_EQ(std::get<refuse>(what[1]).run, 2u);
  it.over();
  EXPECT_EQ(refusals(it.on(join{0, 2, 0, 3})).at(0).why, why);
}

TEST(RunBarrier, IgnoresAnUnknownProcess) {
  auto it = of_three();
  it.on({0, 1, 0, 10});
  EXPECT_TRUE(it.on({3, 1'000'000, 0, 99}).empty());
  EXPECT_EQ(it.absent(), (std::vector<std::string>{"worker 1", "worker 2"}));
}

TEST(RunBarrier, WaitsForNoProcessIfNoneJoined) {
  auto it = of_three();
  EXPECT_FALSE(it.waiting());
  EXPECT_TRUE(it.absent().empty());
  EXPECT_TRUE(it.on_late("1000 ms").empty());
}

TEST(RunBarrier, ComparesRunFirstStepAndSteps) {
  for (const auto& other :
       {join{2, 2, 4, 10}, join{2, 1, 5, 10}, join{2, 1, 4, 9}}) {
    auto it = of_three();
    EXPECT_TRUE(it.on({1, 1, 4, 10}).empty());
    EXPECT_EQ(refusals(it.on(other)).size(), 2u);
    EXPECT_FALSE(it.waiting());
  }
}

TEST(RunBarrier, UsesTheLastRequestOfAProcess) {
  auto it = of_three();
  EXPECT_TRUE(it.on({0, 1, 0, 10}).empty());
  EXPECT_TRUE(it.on({0, 2, 7, 5}).empty());
  EXPECT_TRUE(it.on({0, 1, 0, 10}).empty()) << "an older run";
  EXPECT_TRUE(it.on({1, 2, 7, 5}).empty());
  EXPECT_TRUE(begins(it.on({2, 2, 7, 5})));
}

TEST(RunBarrier, RejectsALateJoinOfAnOlderRun) {
  auto it = of_three();
  for (const std::uint64_t run : {1, 2}) {
    it.on({0, run, 0, 1});
    it.on_late("1000 ms");
  }
  const auto first = refusals(it.on({1, 1, 0, 1}));
  EXPECT_EQ(first.at(0).why,
            "run 1 of worker 1 has ended for all other processes");
  EXPECT_EQ(first.at(0).code, commit::cause::protocol);
  const auto second = refusals(it.on({1, 2, 0, 1}));
  EXPECT_EQ(second.at(0).code, commit::cause::stalled);
  EXPECT_EQ(second.at(0).run, 2u);
}

TEST(RunBarrier, AbortsTheActiveRunOnce) {
  auto it = of_three();
  for (const std::uint32_t p : {0, 1, 2})
    it.on({p, 1, 0, 10});
  EXPECT_EQ(it.on({1, 2, 0, 3}).size(), 2u);
  const auto other = refusals(it.on({2, 2, 0, 3}));
  ASSERT_EQ(other.size(), 1u)
    << "that run is rejected, the first was aborted already";
  EXPECT_EQ(other[0].whom, 2u);
}

TEST(RunBarrier, GivesTheLossAsTheReasonToAProcessThatLeavesARun) {
  auto it = of_three();
  for (const std::uint32_t p : {0, 1, 2})
    it.on({p, 1, 0, 10});
  it.on_lost(2, commit::cause::unreachable, "silent for 1 s");
  const auto what = it.on({1, 2, 0, 3});
  ASSERT_EQ(what.size(), 2u);
  EXPECT_EQ(std::get<refuse>(what[1]).code, commit::cause::unreachable);
  EXPECT_EQ(
    std::get<refuse>(what[1]).why,
    "worker 2 is lost, and no run can start without it: silent for 1 s");
}

TEST(RunBarrier, NamesTheLargestStepAsTheEndOfAnEndlessRun) {
  auto it = of_three();
  it.on({0, 1, 4, ~std::uint64_t{0}});
  EXPECT_EQ(refusals(it.on_late("1 s")).at(0).why,
            "steps [4, 18446744073709551615) as its run 1 cannot begin: for 1 "
            "s worker 1 and worker 2 did not join");
}
