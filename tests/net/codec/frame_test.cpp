#include "troupe/net/codec/crc32c.hpp"
#include "troupe/net/codec/frame_layout.hpp"
#include "troupe/tests/net/codec/frames.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

/// Returns the bytes of a frame that `change` has changed, with correct
/// checksums.
template <class F>
std::vector<std::byte> sealed(F&& change) {
  auto bytes = to_bytes(some_frame(9));
  change(bytes);
  const auto head = crc32c(std::span{bytes}.first(layout::header_sum));
  store_le(&bytes[layout::header_sum], head);
  store_le(&bytes[layout::sum],
           crc32c(std::span{bytes}.subspan(header_size), head));
  return bytes;
}

decode_error error_of(const std::vector<std::byte>& bytes,
                      const frame_limits& limits = {}) {
  const auto x = decode_all(bytes, 3, limits);
  EXPECT_TRUE(x.frames.empty());
  return x.error.value_or(decode_error{0, "none"});
}

} // namespace

TEST(Frame, IsDecodedFromPiecesOfAnySize) {
  std::vector<frame> sent;
  std::vector<std::byte> stream;
  for (const std::size_t size : {0, 1, 2, 7, 39, 40, 41, 255, 4099}) {
    sent.push_back(some_frame(size, std::uint32_t(size)));
    const auto bytes = to_bytes(sent.back());
    EXPECT_EQ(bytes.size(), header_size + size);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  for (const std::size_t piece : {1, 2, 3, 7, 39, 40, 41, 1000, 1 << 20}) {
    const auto got = decode_all(stream, piece);
    EXPECT_FALSE(got.error);
    EXPECT_EQ(got.frames, sent) << "in pieces of " << piece;
  }
}

TEST(Frame, IsDecodedFromAnyTwoPieces) {
  const std::vector sent{some_frame(5, 1), some_frame(0, 2), some_frame(61, 3)};
  std::vector<std::byte> stream;
  for (const auto& x : sent)
    for (const auto b : to_bytes(x))
      stream.push_back(b);
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    frame_decoder decoder;
    std::vector<frame> got;
    for (auto half : {std::span<const std::byte>{stream}.first(cut),
                      std::span<const std::byte>{stream}.subspan(cut)})
      while (!half.empty()) {
        auto x = decoder.next(half);
        if (auto* whole = std::get_if<frame>(&x))
          got.push_back(std::move(*whole));
      }
    EXPECT_EQ(got, sent) << "cut at " << cut;
  }
}

TEST(Frame, WithAnyFlippedBitIsRejectedAtTheSameOffsetInAnyPieces) {
  const auto bytes = to_bytes(some_frame(23));
  for (std::size_t offset = 0; offset < bytes.size(); ++offset)
    for (int bit = 0; bit < 8; ++bit) {
      auto bad = bytes;
      bad[offset] ^= std::byte(1 << bit);
      const auto one = decode_all(bad, 1), whole = decode_all(bad, bad.size());
      EXPECT_TRUE(one.frames.empty()) << "byte " << offset << ", bit " << bit;
      ASSERT_TRUE(one.error) << "byte " << offset << ", bit " << bit;
      EXPECT_EQ(one.error, whole.error);
    }
}

TEST(Frame, TruncatedAnywhereIsReportedWithItsOffset) {
  const auto bytes = to_bytes(some_frame(11));
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    const auto x = decode_all(std::span{bytes}.first(cut), 5);
    EXPECT_TRUE(x.frames.empty());
    ASSERT_TRUE(x.error);
    EXPECT_EQ(x.error->offset, cut);
  }
}

TEST(Frame, RandomBytesAreRejected) {
  std::mt19937 random{11};
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(random() % 200);
    for (auto& b : bytes)
      b = std::byte(random());
    if (i % 2) // begins like a valid frame, to pass the first checks
      std::copy_n(to_bytes(some_frame(3)).begin(),
                  std::min<std::size_t>(bytes.size(), random() % 40),
                  bytes.begin());
    const auto x = decode_all(bytes, 1 + random() % 50);
    EXPECT_TRUE(x.frames.empty());
    EXPECT_EQ(x.error.has_value(), !bytes.empty());
  }
}

TEST(Frame, NamesTheInvalidField) {
  const auto error_with = [](std::size_t at, int x) {
    return sealed([=](auto& bytes) { bytes[at] = std::byte(x); });
  };
  EXPECT_EQ(error_of(error_with(layout::magic + 1, 0)),
            (decode_error{0, "not the start of a frame"}));
  EXPECT_EQ(error_of(error_with(layout::version, 9)),
            (decode_error{4, "version 9, but version 4 is expected"}));
  EXPECT_EQ(error_of(error_with(layout::kind, 0)),
            (decode_error{5, "unknown kind 0"}));
  EXPECT_EQ(error_of(error_with(layout::kind, 6)),
            (decode_error{5, "unknown kind 6"}));
  EXPECT_EQ(error_of(error_with(layout::flags, 128)),
            (decode_error{6, "unknown flags 128"}));
  EXPECT_EQ(error_of(error_with(layout::priority, 2)),
            (decode_error{7, "unknown priority 2"}));
}

TEST(Frame, IsRejectedWithItsOffsetInTheStream) {
  auto bytes = to_bytes(some_frame(10));
  const auto next = sealed([](auto& x) { x[layout::kind] = std::byte{77}; });
  bytes.insert(bytes.end(), next.begin(), next.end());
  const auto x = decode_all(bytes, 13);
  EXPECT_EQ(x.frames.size(), 1u);
  EXPECT_EQ(x.error, (decode_error{50 + 5, "unknown kind 77"}));
}

TEST(Frame, ClaimingTooMuchAllocatesNoMemory) {
  const frame_limits limits{.control = 100, .bulk = 1 << 20};
  for (const auto length : {std::uint32_t{101}, std::uint32_t{1} << 20,
                            std::uint32_t{1} << 31, ~std::uint32_t{0}}) {
    const auto bytes = sealed([&](auto& x) {
      x[layout::priority] = std::byte{0};
      store_le(&x[layout::length], length);
    });
    frame_decoder decoder{limits};
    std::span<const std::byte> rest{bytes};
    const auto x = decoder.next(rest);
    ASSERT_TRUE(std::holds_alternative<decode_error>(x));
    EXPECT_EQ(std::get<decode_error>(x).offset, layout::length);
    EXPECT_EQ(decoder.allocated_bytes(), 0u);
  }
}

TEST(Frame, AllocatesForReceivedBytesNotForClaimedOnes) {
  const auto bytes = sealed([](auto& x) {
    x[layout::priority] = std::byte{1};
    store_le(&x[layout::length], std::uint32_t{1} << 30);
  });
  frame_decoder decoder;
  auto rest = std::span<const std::byte>{bytes}.first(header_size);
  EXPECT_TRUE(std::holds_alternative<frame_decoder::more>(decoder.next(rest)));
  EXPECT_EQ(decoder.allocated_bytes(), 0u);
  rest = std::span<const std::byte>{bytes}.subspan(header_size);
  EXPECT_TRUE(std::holds_alternative<frame_decoder::more>(decoder.next(rest)));
  EXPECT_LE(decoder.allocated_bytes(), 2 * (bytes.size() - header_size));
}

TEST(Frame, IsNotSearchedAfterAnInvalidOne) {
  frame_decoder decoder;
  auto bytes = to_bytes(some_frame(4));
  bytes[20] ^= std::byte{1};
  std::span<const std::byte> rest{bytes};
  ASSERT_TRUE(std::holds_alternative<decode_error>(decoder.next(rest)));
  const auto good = to_bytes(some_frame(4));
  rest = good;
  EXPECT_TRUE(std::holds_alternative<decode_error>(decoder.next(rest)));
  EXPECT_TRUE(decoder.finish());
}
