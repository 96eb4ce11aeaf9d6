#include "troupe/net/cluster/survivors_ruling.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe::net;
using numbers = std::vector<std::uint64_t>;

/// Process 1 asks, and names none; 2 and 3 are further members of its view, and
/// 9 is about to join.
survivors_ruling rule(const numbers& waiting) {
  const std::vector<launched_process> all{
    {1, true}, {2, true}, {3, true}, {9, false}};
  return rule_on_waiting({{}, {2, 3}, {}}, 1, all, waiting);
}

/// None of three can have a majority if each waits for the launcher.
TEST(SurvivorsRuling, EndsMoreIfAllOfThemWait) {
  const auto found = rule({1, 2, 3});
  EXPECT_FALSE(found.is_certain());
  EXPECT_FALSE(found.is_minority);
  EXPECT_EQ(found.unreachable, (numbers{2, 3}));
  EXPECT_EQ(found.starting, numbers{9});
}

TEST(SurvivorsRuling, EndsNoneIfOneOfThemDoesNotWait) {
  for (const auto& waiting : {numbers{}, {1, 2}, {1, 3, 9}}) {
    const auto found = rule(waiting);
    EXPECT_TRUE(found.is_minority);
    EXPECT_EQ(found.unreachable, numbers{});
    EXPECT_EQ(found.starting, numbers{});
  }
}

/// It is that of `rule_on` if no more live than are named.
TEST(SurvivorsRuling, EndsOthersThatAreNotMoreWithoutAWait) {
  const std::vector<launched_process> all{{1, true}, {2, true}};
  EXPECT_EQ(rule_on_waiting({{}, {2}, {}}, 1, all, {}).unreachable, numbers{2});
  EXPECT_TRUE(rule_on_waiting({{2}, {2}, {}}, 1, all, {}).is_certain());
}

TEST(SurvivorsRuling, WaitsForThoseThatHaveAskedOrAreNamed) {
  const std::vector<open_question> open{{1, {{2}, {2, 3, 4}, {}}},
                                        {3, {{}, {1, 2, 4}, {}}}};
  for (const std::uint64_t asked : {1, 2, 3})
    EXPECT_TRUE(waits_for_ruling(asked, open)) << asked;
  EXPECT_FALSE(waits_for_ruling(4, open));
  EXPECT_FALSE(waits_for_ruling(1, {}));
}

} // namespace
