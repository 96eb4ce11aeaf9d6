#include "troupe/strategies/names.hpp"

#include <gtest/gtest.h>

namespace troupe {

TEST(Names, AreJoinedInAnyNumber) {
  EXPECT_EQ(join_words({}), "");
  EXPECT_EQ(join_words({"a"}), "a");
  EXPECT_EQ(join_words({"a", "b"}), "a and b");
  EXPECT_EQ(join_words({"a", "b", "c", "d"}), "a, b, c and d");
}

} // namespace troupe
