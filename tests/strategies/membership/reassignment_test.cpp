#include "troupe/strategies/membership/reassignment.hpp"

#include <gtest/gtest.h>

namespace troupe::membership {

namespace {

member process(std::uint32_t task, std::vector<std::uint32_t> replicas,
               std::uint32_t capacity) {
  return {task, 100 + task, "127.0.0.1", 1000, std::move(replicas), capacity};
}

/// Returns the replicas of each member.
std::vector<std::vector<std::uint32_t>>
replicas_of(const std::vector<member>& members) {
  std::vector<std::vector<std::uint32_t>> out;
  for (const auto& x : members)
    out.push_back(x.replicas);
  return out;
}

using lists = std::vector<std::vector<std::uint32_t>>;

const member a = process(0, {0, 1}, 2), b = process(1, {2, 3}, 2),
             c = process(2, {4, 5}, 2);
const view three{1, {a, b, c}};

TEST(Reassignment, NothingChangesIfAllStay) {
  EXPECT_EQ(reassigned(three, three.members, {}), three.members);
}

TEST(Reassignment, OrphansGoToTheMembersWithTheFewestReplicas) {
  EXPECT_EQ(replicas_of(reassigned(three, {a, c}, {})),
            (lists{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(replicas_of(reassigned(three, {b}, {})),
            (lists{{0, 1, 2, 3, 4, 5}}));
}

TEST(Reassignment, TheFewestReplicasAreCountedByCapacity) {
  const view uneven{
    1,
    {process(0, {0, 1, 2, 3}, 4), process(1, {4}, 1), process(2, {5, 6}, 2)}};
  EXPECT_EQ(
    replicas_of(reassigned(uneven, {uneven.members[0], uneven.members[1]}, {})),
    (lists{{0, 1, 2, 3, 5, 6}, {4}}));
}

TEST(Reassignment, AMemberWithoutCapacityHostsNothing) {
  const view with_evaluator{1, {a, b, process(3, {}, 0)}};
  EXPECT_EQ(
    replicas_of(reassigned(with_evaluator, {b, with_evaluator.members[2]}, {})),
    (lists{{0, 1, 2, 3}, {}}));
}

TEST(Reassignment, AProcessThatJoinsTakesItsShare) {
  const auto survivors = reassigned(three, {a, c}, {});
  const auto restarted = process(1, {}, 2);
  EXPECT_EQ(replicas_of(reassigned({2, survivors}, survivors, {restarted})),
            (lists{{0, 1}, {2, 5}, {3, 4}}));
}

TEST(Reassignment, AProcessThatReplacesAnotherTakesItsReplicas) {
  auto restarted = process(1, {}, 2);
  restarted.incarnation = 7;
  EXPECT_EQ(replicas_of(reassigned(three, {a, c}, {restarted})),
            (lists{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(Reassignment, ASpareGetsNothingIfThereAreTooFewReplicas) {
  const view two{1, {process(0, {0}, 1), process(1, {1}, 1)}};
  EXPECT_EQ(replicas_of(reassigned(two, two.members, {process(2, {}, 1)})),
            (lists{{0}, {1}, {}}));
}

TEST(Reassignment, TheStateIsLostIfNoMemberThatStaysHostsReplicas) {
  const view with_evaluator{1, {a, process(3, {}, 0)}};
  EXPECT_TRUE(
    reassigned(with_evaluator, {with_evaluator.members[1]}, {process(4, {}, 1)})
      .empty());
}

} // namespace

} // namespace troupe::membership
