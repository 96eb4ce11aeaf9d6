#include "troupe/net/cluster/survivors_question.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe::net;
using numbers = std::vector<std::uint64_t>;

TEST(SurvivorsQuestion, IsReadAsItIsWritten) {
  for (const auto& one :
       {survivors_question{}, survivors_question{{}, {4}, {}},
        survivors_question{{1, 2}, {1, 2, 3}, {~std::uint64_t{0}}}})
    EXPECT_EQ(parse_survivors_question(to_words(one)), one) << to_words(one);
  for (const auto* text :
       {"", "1", "1 /", "x / /", "1 / 2 / 3 / 4", "0 / /", "1 -2 / 3 /",
        "2x / 3 /", "99999999999999999999 / /"})
    EXPECT_EQ(parse_survivors_question(text), std::nullopt) << text;
}

/// Process 1 asks; processes 2 and 3 are further members of its view.
survivors_ruling rule(const numbers& living,
                      const std::vector<launched_process>& all,
                      const numbers& left = {}) {
  return rule_on({living, {2, 3}, left}, 1, all);
}

TEST(SurvivorsRuling, IsCertainIfOnlyThoseLiveThatAreNamed) {
  EXPECT_TRUE(rule({}, {{1, true}}).is_certain());
  EXPECT_TRUE(rule({3}, {{1, true}, {3, true}}).is_certain());
  // One that has joined, and copies the state.
  EXPECT_TRUE(rule({3}, {{1, true}, {3, false}}).is_certain());
}

TEST(SurvivorsRuling, LeavesThoseAloneThatTakeNoFurtherPart) {
  EXPECT_TRUE(rule({}, {{1, true}, {2, true, true}}).is_certain());
  EXPECT_TRUE(rule({}, {{1, true}, {2, true}}, {2}).is_certain());
}

TEST(SurvivorsRuling, EndsThoseThatMayJoinMeanwhile) {
  const auto found = rule({3}, {{1, true}, {3, true}, {9, false}});
  EXPECT_FALSE(found.is_certain());
  EXPECT_EQ(found.starting, numbers{9});
  EXPECT_EQ(found.unreachable, numbers{});
}

TEST(SurvivorsRuling, EndsOthersThatAreNotMore) {
  for (const bool has_begun : {false, true}) {
    const auto found = rule({}, {{1, true}, {2, has_begun}});
    EXPECT_FALSE(found.is_certain());
    EXPECT_EQ(found.unreachable, numbers{2});
  }
  // A process that has joined a later view.
  EXPECT_EQ(rule({}, {{1, true}, {9, true}}).unreachable, numbers{9});
}

TEST(SurvivorsRuling, EndsNoneIfMoreLiveThanAreNamed) {
  const auto found = rule({}, {{1, true}, {2, true}, {3, true}, {9, false}});
  EXPECT_FALSE(found.is_certain());
  EXPECT_EQ(found.unreachable, numbers{});
  EXPECT_EQ(found.starting, numbers{});
}

} // namespace
