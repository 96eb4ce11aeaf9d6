#include "troupe/actors/membership/elastic_group/renewal_limit.hpp"

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

// Lanes that cannot be opened take 10 s.
TEST(RenewalLimit, EndsAJobOfSlowRenewalsWithinAMinute) {
  for (const auto each : {7s, 8s, 10s, 11s}) {
    renewal_limit slow;
    std::uint64_t i = 0;
    while (slow.on_renewal(100s + each * i, i + 1, {4, 7}, "no lanes"))
      ++i;
    EXPECT_GE(i, renewal_limit::max_slow_renewals);
    EXPECT_LT(each * i, 60s);
  }
}

// A step of some minutes is made again after each of some faults.
TEST(RenewalLimit, LetsAFewFaultsOccurInALongStep) {
  renewal_limit limit;
  for (std::uint64_t i = 0; i < renewal_limit::max_slow_renewals; ++i)
    EXPECT_TRUE(limit.on_renewal(600s * i, i, {4, 7}, "cut")) << i;
  EXPECT_FALSE(limit.on_renewal(3000s, 5, {4, 7}, "cut"));
}
