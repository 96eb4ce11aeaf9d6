#include "troupe/simulation/fault_plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr int many = 10'000;

TEST(FaultPlan, EmptyLetsEverythingPass) {
  fault_dice dice{{}, 1};
  for (int i = 0; i < many; ++i) {
    const auto fate = dice.of_message(0, 1);
    ASSERT_FALSE(fate.dropped || fate.twice || fate.delay > 0ns);
  }
  EXPECT_EQ(dice.kills(0, 0), std::nullopt);
}

TEST(FaultPlan, ChanceOneAlwaysComesToPassAndZeroNever) {
  fault_dice dice{faults{}.drop(0).duplicate(1).delay(1, 5ns), 1};
  for (int i = 0; i < many; ++i) {
    const auto fate = dice.of_message({}, {});
    ASSERT_FALSE(fate.dropped);
    ASSERT_TRUE(fate.twice);
    ASSERT_GE(fate.delay, 1ns);
    ASSERT_LE(fate.delay, 5ns);
  }
  EXPECT_EQ(dice.fired.drops, 0u);
  EXPECT_EQ(dice.fired.duplicates, std::size_t{many});
  EXPECT_EQ(dice.fired.delays, std::size_t{many});
}

TEST(FaultPlan, ComesToPassAsOftenAsItsChanceSays) {
  fault_dice dice{faults{}.drop(0.3), 7};
  for (int i = 0; i < many; ++i)
    dice.of_message(0, 1);
  const auto deviation = std::sqrt(many * 0.3 * 0.7);
  EXPECT_LT(std::abs(static_cast<double>(dice.fired.drops) - many * 0.3),
            5 * deviation);
}

TEST(FaultPlan, TouchesOnlyMessagesOfTheReplicaThatItNames) {
  fault_dice dice{faults{}.drop(replica{2}, 1), 1};
  EXPECT_TRUE(dice.of_message(2, 0).dropped);
  EXPECT_TRUE(dice.of_message(0, 2).dropped);
  EXPECT_TRUE(dice.of_message({}, 2).dropped);
  EXPECT_FALSE(dice.of_message(0, 1).dropped);
  EXPECT_FALSE(dice.of_message({}, {}).dropped);
}

TEST(FaultPlan, KillsEachVictimOnce) {
  const auto plan =
    faults{}.kill(replica{1}, at_step{3}).kill(replica{0}, at_step{3});
  fault_dice dice{plan, 1};
  EXPECT_FALSE(dice.kills(1, 2));
  EXPECT_TRUE(dice.kills(1, 3));
  EXPECT_FALSE(dice.kills(1, 3));
  EXPECT_TRUE(dice.kills(0, 3));
  EXPECT_FALSE(dice.kills(0, 3));
}

TEST(FaultPlan, IsAFunctionOfItsSeed) {
  const auto plan = faults{}.drop(0.2).duplicate(0.2).delay(0.2);
  fault_dice a{plan, 42}, b{plan, 42}, c{plan, 43};
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const auto x = a.of_message(0, 1), y = b.of_message(0, 1),
               z = c.of_message(0, 1);
    ASSERT_EQ(x.dropped, y.dropped);
    ASSERT_EQ(x.twice, y.twice);
    ASSERT_EQ(x.delay, y.delay);
    differs |= x.dropped != z.dropped;
  }
  EXPECT_TRUE(differs);
}

TEST(FaultPlan, RefusesWhatIsNoChance) {
  EXPECT_THROW(faults{}.drop(-0.1), std::invalid_argument);
  EXPECT_THROW(faults{}.duplicate(1.1), std::invalid_argument);
  EXPECT_THROW(faults{}.delay(std::nan("")), std::invalid_argument);
  EXPECT_THROW(faults{}.delay(0.5, 0ns), std::invalid_argument);
}

} // namespace
} // namespace troupe::simulation
