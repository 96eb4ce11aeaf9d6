#include "troupe/net/codec.hpp"
#include "troupe/tests/net/frames.hpp"
#include "troupe/tests/net/wire_doc.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

TEST(WireDoc, ShowsAFrame) {
  const frame x{.epoch = 7,
                .tag = 1,
                .payload = {std::byte{'h'}, std::byte{'i'}},
                .channel = 3};
  EXPECT_EQ(in_hex(to_bytes(x)), examples().at(0));
}

TEST(WireDoc, ShowsValues) {
  EXPECT_EQ(in_hex(encode(std::uint32_t{258}, true, std::string{"hi"})),
            examples().at(1));
}
