#include "troupe/net/base/log_rate_limiter.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

using namespace troupe::net;
using namespace std::chrono_literals;

TEST(LogRateLimiter, CountsSuppressedMessagesBySeverity) {
  std::vector<std::pair<severity, std::string>> said;
  log_limiter log{
    [&](severity how, const std::string& x) { said.emplace_back(how, x); }};
  for (int i = 0; i < 50; ++i)
    log(severity::info, "a stranger");
  log(severity::warning, "a member\x1b[2J");
  ASSERT_EQ(said.size(), 21u);
  EXPECT_EQ(said.back(),
            std::pair(severity::warning, std::string{"a member?[2J"}));
  said.clear();
  const log_limiter::clock::time_point start{1h};
  log.tick(start);
  EXPECT_EQ(said, (std::vector{std::pair(
                    severity::info,
                    std::string{"30 further messages were suppressed"})}));
  log.tick(start + 999ms);
  EXPECT_EQ(said.size(), 1u);
}
