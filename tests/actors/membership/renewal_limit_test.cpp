#include "troupe/actors/membership/renewal_limit.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace std::chrono_literals;

TEST(RenewalLimit, EndsAJobThatMakesNoStep) {
  renewal_limit limit;
  for (std::uint64_t i = 0; i < renewal_limit::max_renewals; ++i)
    EXPECT_TRUE(limit.on_renewal(100s + 10ms * i, i + 1, {4, 7}, "cut"));
  EXPECT_FALSE(limit.on_renewal(101s, 11, {4, 7}, "a flipped bit"));
  const auto text = limit.describe();
  EXPECT_EQ(text.find("view 1 after 0 ms: cut; view 2 after 10 ms: cut"), 0u)
    << text;
  EXPECT_NE(text.find("view 11 after 1000 ms: a flipped bit"),
            std::string::npos)
    << text;
}

TEST(RenewalLimit, AStepIsProgress) {
  renewal_limit limit;
  for (std::uint64_t i = 0; i < 3 * renewal_limit::max_renewals; ++i)
    EXPECT_TRUE(limit.on_renewal(1ms * i, i, {4, i / 10}, "cut")) << i;
}

// Lanes that cannot be opened take 10 s, so that 60 s see six of them.
TEST(RenewalLimit, TimeIsNoProgress) {
  renewal_limit slow;
  for (std::uint64_t i = 0; i < renewal_limit::max_renewals; ++i)
    EXPECT_TRUE(slow.on_renewal(600s * i, i, {4, 7}, "no lanes")) << i;
  EXPECT_FALSE(slow.on_renewal(6000s, 11, {4, 7}, "no lanes"));
}
