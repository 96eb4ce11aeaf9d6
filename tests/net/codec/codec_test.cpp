#include "troupe/net/codec/codec.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <limits>
#include <random>
#include <sstream>
#include <variant>

using namespace troupe::net;

namespace wired {

enum class color : std::uint8_t { red, green = 3 };

struct inner {
  std::uint32_t id = 0;
  std::string name;
  auto fields() { return std::tie(id, name); }
  bool operator==(const inner&) const = default;
};

struct outer {
  bool flag = false;
  std::int8_t small = 0;
  std::uint64_t large = 0;
  double real = 0;
  float single = 0;
  color paint = color::red;
  std::string text;
  std::vector<std::uint16_t> numbers;
  std::vector<inner> more;
  std::vector<std::string> texts;
  inner last;
  std::vector<std::variant<std::uint8_t, inner>> mixed;
  auto fields() {
    return std::tie(flag, small, large, real, single, paint, text, numbers,
                    more, texts, last, mixed);
  }
  bool operator==(const outer&) const = default;
};

struct nothing {
  auto fields() { return std::tie(); }
};

/// Cereal's archive calls this function.
template <class Archive, lists_fields T>
void serialize(Archive& to, T& x) {
  std::apply([&to](auto&... xs) { to(xs...); }, x.fields());
}

} // namespace wired

namespace {

wired::outer sample() {
  return {true,
          -7,
          ~std::uint64_t{0} - 5,
          -0.0,
          1e-45f,
          wired::color::green,
          "text with a \0 in it",
          {1, 2, 65535},
          {{1, "a"}, {2, ""}},
          {"x", "", std::string(300, 'y')},
          {9, "end"},
          {wired::inner{3, "b"}, std::uint8_t{4}}};
}

template <class T>
std::string error_of(std::vector<std::byte> bytes) {
  T x{};
  const auto fault = decode(bytes, x);
  return fault ? to_string(*fault) : "none";
}

std::vector<std::byte> bytes_of(std::initializer_list<int> xs) {
  std::vector<std::byte> bytes;
  for (const auto x : xs)
    bytes.push_back(std::byte(x));
  return bytes;
}

struct handle {};

} // namespace

static_assert(encodable<wired::outer>);
static_assert(!encodable<handle> && !encodable<void*>);
static_assert(!encodable<std::vector<handle>>);
static_assert(!encodable<std::variant<int, handle>>);

TEST(Codec, DecodesWhatItEncoded) {
  auto x = sample();
  wired::outer decoded;
  int z = 0;
  EXPECT_FALSE(decode(encode(x, 42), decoded, z));
  EXPECT_EQ(x, decoded);
  EXPECT_EQ(z, 42);
  EXPECT_TRUE(std::signbit(decoded.real));
}

TEST(Codec, WritesBytesThatCerealsArchiveReads) {
  const auto bytes = encode(sample());
  std::stringstream stream{
    {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  cereal::PortableBinaryInputArchive from{stream};
  wired::outer x;
  from(x);
  EXPECT_EQ(x, sample());
}

TEST(Codec, IsLittleEndianOnEveryMachine) {
  EXPECT_EQ(encode(std::uint32_t{0x01020304}, true, wired::color::green,
                   std::string{"hi"}),
            bytes_of({1, 4, 3, 2, 1, 1, 3, 2, 0, 0, 0, 0, 0, 0, 0, 'h', 'i'}));
}

TEST(Codec, KeepsTheBitsOfFloats) {
  for (const std::uint64_t bits :
       {0x7FF8000000000000u, 0x7FF0000000000001u, 0xFFF8DEADBEEF0001u,
        0x7FF0000000000000u, 0xFFF0000000000000u, 0x8000000000000000u, 0x1ul,
        0x000FFFFFFFFFFFFFul}) {
    double x = 0;
    EXPECT_FALSE(decode(encode(std::bit_cast<double>(bits)), x));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(x), bits);
  }
  for (const std::uint32_t bits :
       {0x7FC00000u, 0x7F800001u, 0x7F800000u, 0xFF800000u, 1u, 0x807FFFFFu}) {
    float x = 0;
    EXPECT_FALSE(decode(encode(std::bit_cast<float>(bits)), x));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(x), bits);
  }
}

TEST(Codec, RejectsTruncationAnywhere) {
  const auto bytes = encode(sample());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    wired::outer x;
    EXPECT_TRUE(decode(std::span{bytes}.first(cut), x)) << cut;
  }
}

TEST(Codec, SurvivesEveryFlippedByte) {
  const auto bytes = encode(sample());
  std::mt19937 random{3};
  for (std::size_t offset = 0; offset < bytes.size(); ++offset)
    for (const int with : {0x01, 0x80, 0xFF, int(random() % 255 + 1)}) {
      auto bad = bytes;
      bad[offset] ^= std::byte(with);
      wired::outer x;
      if (!decode(bad, x)) { // the changed bytes encode another valid value
        EXPECT_EQ(encode(x), bad) << "byte " << offset;
      }
    }
}

TEST(Codec, ChecksLengthsAgainstTheBytesLeft) {
  const auto huge = bytes_of({1, 255, 255, 255, 255, 255, 255, 255, 255, 'x'});
  EXPECT_EQ(error_of<std::string>(huge),
            "byte 1: a text of 18446744073709551615, but 1 bytes are left");
  EXPECT_EQ(error_of<std::vector<double>>(huge),
            "byte 1: a list of 18446744073709551615, but 1 bytes are left");
  EXPECT_EQ(error_of<std::vector<wired::inner>>(
              bytes_of({1, 2, 0, 0, 0, 0, 0, 0, 0, 'x'})),
            "byte 1: a list of 2, but 1 bytes are left");
  EXPECT_EQ(error_of<std::vector<wired::nothing>>(
              bytes_of({1, 1, 0, 0, 0, 0, 0, 0, 0, 'x'})),
            "byte 9: an element of a list has no bytes");
}

TEST(Codec, NamesTheInvalidValue) {
  EXPECT_EQ(error_of<bool>(bytes_of({1, 2})),
            "byte 1: 2 is neither true nor false");
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(error_of<wired::color>(bytes_of({1, i})) == "none",
              i == 0 || i == 3);
  EXPECT_EQ(error_of<wired::color>(bytes_of({1, 1})),
            "byte 1: 1 is not a value of wired::color");
  using one = std::variant<bool, std::uint8_t>;
  EXPECT_EQ(error_of<one>(bytes_of({1, 1, 0, 0, 0, 7})), "none");
  EXPECT_EQ(error_of<one>(bytes_of({1, 2, 0, 0, 0, 7})),
            "byte 1: 2 is none of 2 alternatives");
  EXPECT_EQ(error_of<one>(bytes_of({1, 255, 255, 255, 255, 7})),
            "byte 1: -1 is none of 2 alternatives");
  EXPECT_EQ(error_of<std::uint8_t>(bytes_of({1, 2, 3})),
            "byte 2: 1 bytes too many");
  EXPECT_EQ(error_of<std::uint32_t>(bytes_of({1, 2, 3})),
            "byte 1: a number of 4 bytes, but 2 are left");
  EXPECT_EQ(error_of<std::uint8_t>(bytes_of({0, 2})),
            "byte 0: byte order 0, but 1 (little-endian) is expected");
  EXPECT_EQ(error_of<std::uint8_t>({}),
            "byte 0: a number of 1 bytes, but 0 are left");
}

TEST(Codec, AcceptsAnyBitsOfAByte) {
  std::vector<std::byte> encoded(256), decoded;
  for (std::size_t i = 0; i < encoded.size(); ++i)
    encoded[i] = std::byte(i);
  const auto bytes = encode(encoded);
  EXPECT_EQ(bytes.size(), 1 + 8 + encoded.size());
  EXPECT_FALSE(decode(bytes, decoded));
  EXPECT_EQ(encoded, decoded);
}
