#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/strategies/calls/result_codec.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace {

using namespace troupe;
using detail::encodable_result;
using detail::result_reader;
using detail::result_writer;

enum class color : std::uint8_t { red, green };

struct step_values {
  tensor loss;
  double rows = 0;
  std::vector<std::string> names;
  std::array<std::int32_t, 2> pair{};
  color shade = color::red;
  tensors more;
  std::vector<bool> flags;
  auto fields() {
    return std::tie(loss, rows, names, pair, shade, more, flags);
  }
};

static_assert(encodable_result<float>);
static_assert(encodable_result<tensors>);
static_assert(encodable_result<std::pair<int, std::string>>);
static_assert(encodable_result<step_values>);
static_assert(!encodable_result<int*>);
static_assert(!encodable_result<std::shared_ptr<int>>);
static_assert(!encodable_result<std::vector<int*>>);

constexpr auto no_limit = std::numeric_limits<std::size_t>::max();

template <class T>
std::string encoded(const T& x) {
  result_writer out{no_limit};
  out.put(x);
  EXPECT_FALSE(out.is_too_large());
  return std::move(out).text();
}

template <class T>
std::optional<T> decoded(std::string_view text) {
  T x{};
  result_reader in{text};
  if (!in.get(x) || !in.is_at_end())
    return {};
  return x;
}

step_values some_values() {
  step_values x;
  x.loss = tensor::of<float>({2, 1}, {0.5f, -0.0f});
  x.rows = 0.1;
  x.names = {"", "two"};
  x.pair = {7, -8};
  x.shade = color::green;
  x.more.push_back(tensor{});
  x.more.push_back(tensor::of<std::int64_t>({}, {1ll << 40}));
  x.more.push_back(tensor::zeros({0, 3}, dtype::uint8));
  x.flags = {true, false, true};
  return x;
}

TEST(ResultCodec, GivesTheSameValue) {
  const auto x = some_values();
  const auto y = decoded<step_values>(encoded(x));
  ASSERT_TRUE(y);
  EXPECT_TRUE(same_bits(y->loss, x.loss));
  EXPECT_EQ(y->rows, x.rows);
  EXPECT_EQ(y->names, x.names);
  EXPECT_EQ(y->pair, x.pair);
  EXPECT_EQ(y->shade, x.shade);
  ASSERT_EQ(y->more.size(), 3u);
  EXPECT_FALSE(y->more[0]);
  EXPECT_TRUE(same_bits(y->more[1], x.more[1]));
  EXPECT_EQ(y->more[2].spec(), x.more[2].spec());
  EXPECT_EQ(y->flags, x.flags);
}

TEST(ResultCodec, RejectsEveryTruncatedText) {
  const auto whole = encoded(some_values());
  ASSERT_TRUE(decoded<step_values>(whole));
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(decoded<step_values>(std::string_view{whole}.substr(0, n)));
  EXPECT_FALSE(decoded<step_values>(whole + '\0'));
}

/// A length or an extent may claim more bytes than there are, or overflow.
TEST(ResultCodec, SurvivesEveryChangedByte) {
  const auto whole = encoded(some_values());
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const int change : {1, 0x7f, 0x80, 0xff}) {
      auto changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ change);
      if (const auto x = decoded<step_values>(changed)) {
        EXPECT_LE(x->loss ? x->loss.bytes() : 0, whole.size());
      }
    }
}

TEST(ResultCodec, StopsAtTheLimit) {
  result_writer exact{8}, small{7};
  exact.put(1.0);
  small.put(1.0);
  EXPECT_FALSE(exact.is_too_large());
  EXPECT_TRUE(small.is_too_large());
  result_writer many{100};
  many.put(std::vector<std::int32_t>(1'000'000));
  EXPECT_TRUE(many.is_too_large());
  EXPECT_LE(std::move(many).text().size(), 100u);
}

} // namespace
