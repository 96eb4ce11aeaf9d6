#include "troupe/simulation/fault_plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr int message_count = 10'000;

constexpr role_id chief{role_id::kind::chief, 0};

role_id replica_role(std::uint32_t id) {
  return {role_id::kind::replica, id};
}

fault_injector::injected_fault send(random_fault_injector& injector,
                                    const role_id& sender,
                                    const role_id& receiver,
                                    std::uint64_t step = 0) {
  return injector.on_send(sender, receiver, message_kind::contribution, 1,
                          step);
}

TEST(FaultPlan, InjectsNoFaultIfItIsEmpty) {
  random_fault_injector injector{{}, 1};
  for (int i = 0; i < message_count; ++i) {
    const auto fate = send(injector, replica_role(0), replica_role(1));
    ASSERT_FALSE(fate.dropped || fate.duplicated || fate.delay > 0ns);
  }
  EXPECT_EQ(injector.next_kill(), std::nullopt);
}

TEST(FaultPlan, ProbabilityOneAlwaysOccursAndZeroNever) {
  random_fault_injector injector{faults{}.drop(0).duplicate(1).delay(1, 5ns),
                                 1};
  for (int i = 0; i < message_count; ++i) {
    const auto fate = send(injector, chief, chief);
    ASSERT_FALSE(fate.dropped);
    ASSERT_TRUE(fate.duplicated);
    ASSERT_GE(fate.delay, 1ns);
    ASSERT_LE(fate.delay, 5ns);
  }
  EXPECT_EQ(injector.fired.drops, 0u);
  EXPECT_EQ(injector.fired.duplicates, std::size_t{message_count});
  EXPECT_EQ(injector.fired.delays, std::size_t{message_count});
}

TEST(FaultPlan, OccursWithItsProbability) {
  random_fault_injector injector{faults{}.drop(0.3), 7};
  for (int i = 0; i < message_count; ++i)
    send(injector, replica_role(0), replica_role(1));
  const auto deviation = std::sqrt(message_count * 0.3 * 0.7);
  EXPECT_LT(
    std::abs(static_cast<double>(injector.fired.drops) - message_count * 0.3),
    5 * deviation);
}

TEST(FaultPlan, AffectsOnlyMessagesOfItsReplica) {
  random_fault_injector injector{faults{}.drop(replica{2}, 1), 1};
  EXPECT_TRUE(send(injector, replica_role(2), replica_role(0)).dropped);
  EXPECT_TRUE(send(injector, replica_role(0), replica_role(2)).dropped);
  EXPECT_TRUE(send(injector, chief, replica_role(2)).dropped);
  EXPECT_FALSE(send(injector, replica_role(0), replica_role(1)).dropped);
  EXPECT_FALSE(send(injector, chief, chief).dropped);
}

TEST(FaultPlan, KillsEachReplicaOnceAndNotBeforeItsStep) {
  random_fault_injector injector{
    faults{}.kill(replica{1}, at_step{3}).kill(replica{0}, at_step{5}), 1};
  std::vector<std::uint32_t> killed;
  for (std::uint64_t step = 0; step < 10; ++step)
    for (int i = 0; i < 20; ++i) {
      send(injector, replica_role(0), replica_role(1), step);
      send(injector, replica_role(1), replica_role(0), step);
      while (const auto who = injector.next_kill()) {
        EXPECT_GE(step, *who == 1 ? 3u : 5u);
        killed.push_back(*who);
      }
    }
  EXPECT_EQ(killed, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(injector.fired.kills, 2u);
}

TEST(FaultPlan, IsAFunctionOfItsSeed) {
  const auto plan = faults{}.drop(0.2).duplicate(0.2).delay(0.2);
  random_fault_injector a{plan, 42}, b{plan, 42}, c{plan, 43};
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const auto first = send(a, replica_role(0), replica_role(1)),
               second = send(b, replica_role(0), replica_role(1)),
               other = send(c, replica_role(0), replica_role(1));
    ASSERT_EQ(first.dropped, second.dropped);
    ASSERT_EQ(first.duplicated, second.duplicated);
    ASSERT_EQ(first.delay, second.delay);
    differs |= first.dropped != other.dropped;
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
