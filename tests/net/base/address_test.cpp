#include "troupe/net/base/address.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;

namespace {

std::string complaint(std::string_view text) {
  try {
    parse_address(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

bool complains(std::string_view text, const std::string& why) {
  return complaint(text).find(why) != std::string::npos;
}

} // namespace

TEST(Address, IsANameOrIpv4OrIpv6AndAPort) {
  EXPECT_EQ(parse_address("node-1.cluster:7000"),
            (address{"node-1.cluster", 7000}));
  EXPECT_EQ(parse_address("127.0.0.1:0"), (address{"127.0.0.1", 0}));
  EXPECT_EQ(parse_address("[::1]:65535"), (address{"::1", 65535}));
  EXPECT_EQ(parse_address("[fe80::1%eth0]:1"), (address{"fe80::1%eth0", 1}));
}

TEST(Address, SurvivesARoundTripThroughText) {
  for (const std::string text : {"a:1", "127.0.0.1:80", "[::1]:7000"})
    EXPECT_EQ(to_string(parse_address(text)), text);
}

TEST(Address, InvalidTextIsRejectedWithTheTextAndARemedy) {
  EXPECT_TRUE(
    complains("node", "'node' is not a valid address: it has no port"));
  EXPECT_TRUE(complains("node", "127.0.0.1:7000"));
  EXPECT_TRUE(complains("node:", "not a number from 0 to 65535"));
  EXPECT_TRUE(complains("node:65536", "not a number from 0 to 65535"));
  EXPECT_TRUE(complains("node:-1", "not a number from 0 to 65535"));
  EXPECT_TRUE(complains("node:1x", "not a number from 0 to 65535"));
  EXPECT_TRUE(complains(":1", "it has no host"));
  EXPECT_TRUE(complains("[]:1", "it has no host"));
  EXPECT_TRUE(complains("::1:80", "must be in brackets"));
  EXPECT_TRUE(complains("[node]:1", "not an IPv6 address"));
  EXPECT_TRUE(complains("no de:1", "neither a name nor IPv4"));
  EXPECT_TRUE(complains("", "it has no port"));
  EXPECT_TRUE(complains(std::string(300, 'a') + ":1", "too long"));
  EXPECT_LT(complaint(std::string(100'000, 'a')).size(), 300u);
  // The message is one printable line, although the text is not.
  EXPECT_TRUE(complains(std::string{"[\x06\0]:1\n", 7},
                        "'[??]:1?' is not a valid address: its port"));
}
