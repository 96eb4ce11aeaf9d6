#include "troupe/net/codec.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

using namespace troupe::net;

namespace {

enum class color : std::uint8_t { red, green };

struct inner {
  std::uint16_t a = 0;
  bool b = false;
  auto fields() { return std::tie(a, b); }
  friend bool operator==(const inner&, const inner&) = default;
};

struct outer {
  std::uint64_t number = 0;
  double value = 0;
  color paint = color::red;
  std::string text;
  std::vector<inner> list;
  auto fields() { return std::tie(number, value, paint, text, list); }
  friend bool operator==(const outer&, const outer&) = default;
};

outer sample() {
  return {~std::uint64_t{0},
          -0.0,
          color::green,
          "n\xc3\xb6",
          {{1, true}, {2, false}}};
}

bool refused(const std::vector<std::byte>& bytes) {
  try {
    decode_struct<outer>(bytes);
  } catch (const bad_message&) {
    return true;
  }
  return false;
}

} // namespace

TEST(Codec, GivesBackEveryField) {
  EXPECT_EQ(decode_struct<outer>(encode_struct(sample())), sample());
  EXPECT_EQ(decode_struct<outer>(encode_struct(outer{})), outer{});
  auto x = sample();
  x.value = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(decode_struct<outer>(encode_struct(x)), x);
}

TEST(Codec, RefusesWhatIsCutShortAtAnyPlaceOrTooLong) {
  const auto good = encode_struct(sample());
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_TRUE(refused({good.begin(), good.begin() + std::ptrdiff_t(n)})) << n;
  auto longer = good;
  longer.push_back({});
  EXPECT_TRUE(refused(longer));
}

TEST(Codec, ClaimsOfLengthAreCheckedBeforeAllocation) {
  writer to;
  to.put(std::uint64_t{1});
  to.put(1.0);
  to.put(color::red);
  to.put(std::uint32_t{0xffffffff}); // a text of 4 GiB
  EXPECT_TRUE(refused(to.bytes()));
  writer list;
  list.put(std::uint64_t{1});
  list.put(1.0);
  list.put(color::red);
  list.put(std::string{});
  list.put(std::uint32_t{60'000}); // entries, of which none is there
  EXPECT_TRUE(refused(list.bytes()));
}

TEST(Codec, RefusesToWriteWhatNobodyWouldRead) {
  outer x;
  x.text.assign(longest_text + 1, 'x');
  EXPECT_THROW(encode_struct(x), std::logic_error);
}

TEST(Codec, RefusesATruthValueThatIsNone) {
  writer to;
  to.put(std::uint16_t{1});
  to.put(std::uint8_t{2});
  EXPECT_THROW(decode_struct<inner>(to.bytes()), bad_message);
}

TEST(Codec, SurvivesRandomBytes) {
  std::mt19937_64 rng{6};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(rng() % 60);
    for (auto& b : bytes)
      b = std::byte(rng());
    refused(bytes);
  }
}
