#include "troupe/net/base/log_rate_limiter.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

using namespace troupe::net;
using namespace std::chrono_literals;

TEST(LogRateLimiter, CountsSuppressedMessagesBySeverity) {
  std::vector<std::pair<severity, std::string>> messages;
  log_rate_limiter log{
    [&](severity how, const std::string& x) { messages.emplace_back(how, x); }};
  for (int i = 0; i < 50; ++i)
    log(severity::info, "an unknown peer");
  log(severity::warning, "a member\x1b[2J");
  ASSERT_EQ(messages.size(), 21u);
  EXPECT_EQ(messages.back(),
            std::pair(severity::warning, std::string{"a member?[2J"}));
  messages.clear();
  const log_rate_limiter::clock::time_point start{1h};
  log.tick(start);
  EXPECT_EQ(messages, (std::vector{std::pair(
                        severity::info,
                        std::string{"30 further messages were suppressed"})}));
  log.tick(start + 999ms);
  EXPECT_EQ(messages.size(), 1u);
}
