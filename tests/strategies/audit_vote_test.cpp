#include "troupe/strategies/audit_vote.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

using ids = std::vector<std::uint32_t>;

ids deviating(const std::vector<copy_report>& reports) {
  ids out;
  for (const auto& x : count_votes(reports).deviating)
    out.push_back(x.replica);
  return out;
}

TEST(AuditVote, FindsNothingIfAllCopiesAreEqual) {
  const std::vector<copy_report> reports{{0, 0, 0, 7}, {1, 1, 0, 7}};
  EXPECT_TRUE(are_equal(reports));
  EXPECT_TRUE(count_votes(reports).deviating.empty());
}

TEST(AuditVote, NamesTheReplicaWhoseCopyDiffersFromTheMajority) {
  for (std::uint32_t bad = 0; bad < 3; ++bad) {
    std::vector<copy_report> reports{{0, 0, 0, 7}, {1, 1, 0, 7}, {2, 2, 0, 7}};
    reports[bad].hash = 8;
    EXPECT_FALSE(are_equal(reports));
    EXPECT_TRUE(count_votes(reports).has_majority);
    EXPECT_EQ(count_votes(reports).majority, 7u);
    EXPECT_EQ(deviating(reports), ids{bad});
  }
}

TEST(AuditVote, HasNoMajorityOfTwoCopiesThatDiffer) {
  const std::vector<copy_report> reports{{0, 0, 0, 7}, {1, 1, 0, 8}};
  EXPECT_FALSE(count_votes(reports).has_majority);
  EXPECT_EQ(deviating(reports), (ids{0, 1}));
}

TEST(AuditVote, HasNoMajorityIfHalfOfTheCopiesDiffer) {
  const std::vector<copy_report> reports{
    {0, 0, 0, 7}, {1, 0, 1, 7}, {2, 1, 0, 8}, {3, 1, 1, 8}};
  EXPECT_FALSE(count_votes(reports).has_majority);
}

/// Three replicas that share a copy have one vote against two other copies.
TEST(AuditVote, CountsCopiesAndNotReplicas) {
  const std::vector<copy_report> reports{
    {0, 0, 0, 8}, {1, 0, 0, 8}, {2, 0, 0, 8}, {3, 1, 0, 7}, {4, 2, 0, 7}};
  EXPECT_EQ(count_votes(reports).majority, 7u);
  EXPECT_EQ(deviating(reports), (ids{0, 1, 2}));
}

/// A process that has just adopted a replica has made its copy from its own.
TEST(AuditVote, CopiesMadeFromAnotherOneHaveNoVote) {
  const std::vector<copy_report> reports{
    {0, 0, 0, 8},
    {1, 1, 0, 7},
    {.replica = 2, .process = 0, .copy = 1, .hash = 8, .has_vote = false}};
  EXPECT_FALSE(count_votes(reports).has_majority);
  EXPECT_EQ(deviating(reports), (ids{0, 1, 2}));
}

} // namespace
