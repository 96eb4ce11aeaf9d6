#include "troupe/net/frame.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

using namespace troupe::net;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

frame sample() {
  return {frame_kind::reply, 7, 0x0102030405060708, 99, bytes_of("payload")};
}

std::string refused(const std::vector<std::byte>& bytes) {
  try {
    decode(bytes);
  } catch (const bad_frame& e) {
    return e.what();
  }
  return "";
}

} // namespace

TEST(Crc32c, AgreesWithPublishedAnswers) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, OfAPartGoesOnWithTheNext) {
  const auto whole = bytes_of("a text that is cut at every place");
  const std::span all{whole};
  for (std::size_t cut = 0; cut <= whole.size(); ++cut)
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all));
}

TEST(Frame, ComesBackAsItWent) {
  EXPECT_EQ(decode(encode(sample())), sample());
  EXPECT_EQ(decode(encode(frame{})), frame{});
}

TEST(Frame, HasTheHeaderThatIsWrittenDown) {
  const auto bytes = encode(sample());
  ASSERT_EQ(bytes.size(), header_size + 7);
  const auto at = [&](std::size_t i) { return std::to_integer<int>(bytes[i]); };
  EXPECT_EQ(at(0), 'T');
  EXPECT_EQ(at(1), 'r');
  EXPECT_EQ(at(2), 1);  // version
  EXPECT_EQ(at(3), 2);  // kind
  EXPECT_EQ(at(4), 7);  // what
  EXPECT_EQ(at(8), 7);  // length
  EXPECT_EQ(at(12), 8); // epoch, little-endian
  EXPECT_EQ(at(20), 99);
}

TEST(Frame, WithAnyBitFlippedIsRefused) {
  const auto good = encode(sample());
  for (std::size_t i = 0; i < good.size() * 8; ++i) {
    auto bad = good;
    bad[i / 8] ^= std::byte(1 << i % 8);
    EXPECT_NE(refused(bad), "") << "bit " << i;
  }
}

TEST(Frame, CutShortOrTooLongIsRefused) {
  const auto good = encode(sample());
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(refused({good.begin(), good.begin() + std::ptrdiff_t(n)}), "");
  auto longer = good;
  longer.push_back({});
  EXPECT_EQ(refused(longer), "a frame that claims 7 bytes and has 8");
}

TEST(Frame, LengthIsCheckedBeforeAnybodyAllocates) {
  auto bytes = encode(sample());
  for (std::size_t i = 8; i < 12; ++i)
    bytes[i] = std::byte{0xff};
  bytes.resize(header_size);
  EXPECT_THROW(payload_size(std::span{bytes}.first<header_size>()), bad_frame);
}

TEST(Frame, DecoderSurvivesRandomBytes) {
  std::mt19937_64 rng{5};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(rng() % 80);
    for (auto& b : bytes)
      b = std::byte(rng());
    EXPECT_NE(refused(bytes), "") << "seed 5, try " << i;
  }
}
