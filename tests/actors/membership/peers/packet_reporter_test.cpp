#include "troupe/actors/membership/peers/packet_reporter.hpp"
#include "troupe/net/codec/codec.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(PacketReporter, ReportsAfterAPauseAgainAndAgain) {
  packet_reporter reporter;
  const packet_report sent{1, 5, 2};
  EXPECT_FALSE(reporter.on_interval(sent));
  for (int times = 0; times < 3; ++times) {
    for (std::uint32_t i = 1; i < packet_reporter::pause; ++i)
      EXPECT_FALSE(reporter.on_interval(sent));
    EXPECT_EQ(reporter.on_interval(sent), sent);
  }
}

TEST(PacketReporter, IsSilentWhilePacketsAreSentAndBeforeTheFirst) {
  packet_reporter reporter;
  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(reporter.on_interval({1, 0, 0}));
  for (std::uint64_t i = 1; i < 10; ++i)
    for (std::uint32_t k = 0; k < packet_reporter::pause; ++k)
      EXPECT_FALSE(reporter.on_interval({1, i, 0})) << i;
}

TEST(PacketReporter, BeginsAnewInTheNextView) {
  packet_reporter reporter;
  for (std::uint32_t i = 0; i < packet_reporter::pause; ++i)
    EXPECT_FALSE(reporter.on_interval({1, 5, 2}));
  EXPECT_FALSE(reporter.on_interval({2, 5, 2}));
}

TEST(PacketReport, SurvivesItsEncoding) {
  packet_report sent{3, 70'000, 2}, received;
  EXPECT_FALSE(net::decode(net::encode(sent), received));
  EXPECT_EQ(received, sent);
}

} // namespace
} // namespace troupe
