#include "troupe/simulation/fault_plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr int many = 10'000;

constexpr party chief{party::role::chief, 0};

party of(std::uint32_t id) {
  return {party::role::replica, id};
}

fault_seam::fate send(fault_dice& dice, const party& from, const party& to,
                      std::uint64_t step = 0) {
  return dice.decide(from, to, subject::part, 1, step);
}

TEST(FaultPlan, InjectsNoFaultIfItIsEmpty) {
  fault_dice dice{{}, 1};
  for (int i = 0; i < many; ++i) {
    const auto fate = send(dice, of(0), of(1));
    ASSERT_FALSE(fate.dropped || fate.twice || fate.delay > 0ns);
  }
  EXPECT_EQ(dice.victim(), std::nullopt);
}

TEST(FaultPlan, ProbabilityOneAlwaysOccursAndZeroNever) {
  fault_dice dice{faults{}.drop(0).duplicate(1).delay(1, 5ns), 1};
  for (int i = 0; i < many; ++i) {
    const auto fate = send(dice, chief, chief);
    ASSERT_FALSE(fate.dropped);
    ASSERT_TRUE(fate.twice);
    ASSERT_GE(fate.delay, 1ns);
    ASSERT_LE(fate.delay, 5ns);
  }
  EXPECT_EQ(dice.fired.drops, 0u);
  EXPECT_EQ(dice.fired.duplicates, std::size_t{many});
  EXPECT_EQ(dice.fired.delays, std::size_t{many});
}

TEST(FaultPlan, OccursWithItsProbability) {
  fault_dice dice{faults{}.drop(0.3), 7};
  for (int i = 0; i < many; ++i)
    send(dice, of(0), of(1));
  const auto deviation = std::sqrt(many * 0.3 * 0.7);
  EXPECT_LT(std::abs(static_cast<double>(dice.fired.drops) - many * 0.3),
            5 * deviation);
}

TEST(FaultPlan, AffectsOnlyMessagesOfItsReplica) {
  fault_dice dice{faults{}.drop(replica{2}, 1), 1};
  EXPECT_TRUE(send(dice, of(2), of(0)).dropped);
  EXPECT_TRUE(send(dice, of(0), of(2)).dropped);
  EXPECT_TRUE(send(dice, chief, of(2)).dropped);
  EXPECT_FALSE(send(dice, of(0), of(1)).dropped);
  EXPECT_FALSE(send(dice, chief, chief).dropped);
}

TEST(FaultPlan, KillsEachReplicaOnceAndNotBeforeItsStep) {
  fault_dice dice{
    faults{}.kill(replica{1}, at_step{3}).kill(replica{0}, at_step{5}), 1};
  std::vector<std::uint32_t> dead;
  for (std::uint64_t step = 0; step < 10; ++step)
    for (int i = 0; i < 20; ++i) {
      send(dice, of(0), of(1), step);
      send(dice, of(1), of(0), step);
      while (const auto who = dice.victim()) {
        EXPECT_GE(step, *who == 1 ? 3u : 5u);
        dead.push_back(*who);
      }
    }
  EXPECT_EQ(dead, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(dice.fired.kills, 2u);
}

TEST(FaultPlan, IsAFunctionOfItsSeed) {
  const auto plan = faults{}.drop(0.2).duplicate(0.2).delay(0.2);
  fault_dice a{plan, 42}, b{plan, 42}, c{plan, 43};
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const auto x = send(a, of(0), of(1)), y = send(b, of(0), of(1)),
               z = send(c, of(0), of(1));
    ASSERT_EQ(x.dropped, y.dropped);
    ASSERT_EQ(x.twice, y.twice);
    ASSERT_EQ(x.delay, y.delay);
    differs |= x.dropped != z.dropped;
  }
  EXPECT_TRUE(differs);
}

TEST(FaultPlan, RejectsAnInvalidProbability) {
  EXPECT_THROW(faults{}.drop(-0.1), std::invalid_argument);
  EXPECT_THROW(faults{}.duplicate(1.1), std::invalid_argument);
  EXPECT_THROW(faults{}.delay(std::nan("")), std::invalid_argument);
  EXPECT_THROW(faults{}.delay(0.5, 0ns), std::invalid_argument);
}

} // namespace
} // namespace troupe::simulation
