#include "troupe/net/codec/crc32c.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string_view>
#include <vector>

using namespace troupe::net;

namespace {

std::span<const std::byte> bytes_of(std::string_view x) {
  return std::as_bytes(std::span{x.data(), x.size()});
}

} // namespace

TEST(Crc32c, GivesThePublishedValues) {
  std::vector<std::byte> bytes(32);
  for (const auto& crc : {crc32c, crc32c_by_tables}) {
    EXPECT_EQ(crc({}, 0), 0u);
    EXPECT_EQ(crc(bytes_of("123456789"), 0), 0xE3069283u);
    // The values below are from RFC 3720, B.4.
    bytes.assign(32, std::byte{0});
    EXPECT_EQ(crc(bytes, 0), 0x8A9136AAu);
    bytes.assign(32, std::byte{0xFF});
    EXPECT_EQ(crc(bytes, 0), 0x62A8AB43u);
    for (int i = 0; i < 32; ++i)
      bytes[i] = std::byte(i);
    EXPECT_EQ(crc(bytes, 0), 0x46DD794Eu);
    for (int i = 0; i < 32; ++i)
      bytes[i] = std::byte(31 - i);
    EXPECT_EQ(crc(bytes, 0), 0x113FDB5Cu);
  }
}

TEST(Crc32c, ContinuesAtAnyCutAndAlignmentWithAndWithoutTheInstruction) {
  std::mt19937 random{7};
  std::vector<std::byte> x(97);
  for (auto& b : x)
    b = std::byte(random());
  for (std::size_t from = 0; from < 9; ++from) {
    const auto all = std::span{x}.subspan(from);
    const auto wanted = crc32c(all);
    EXPECT_EQ(crc32c_by_tables(all), wanted);
    for (std::size_t cut = 0; cut <= all.size(); ++cut)
      EXPECT_EQ(crc32c(all.subspan(cut), crc32c_by_tables(all.first(cut))),
                wanted);
  }
}

TEST(Crc32c, EqualsTheTablesForAnyLength) {
  std::mt19937 random{11};
  std::vector<std::byte> bytes(100'000);
  for (auto& b : bytes)
    b = std::byte(random());
  // `crc32c` processes groups of three blocks of 256 or 4096 bytes. The sizes
  // lie at, below and above multiples of such a group.
  for (const std::size_t size :
       {767, 768, 769, 1536, 2311, 12287, 12288, 12296, 13056, 24576, 99'991})
    for (std::size_t from = 0; from < 9; ++from) {
      const auto all = std::span{bytes}.subspan(from, size);
      EXPECT_EQ(crc32c(all, 5), crc32c_by_tables(all, 5)) << size;
    }
}
