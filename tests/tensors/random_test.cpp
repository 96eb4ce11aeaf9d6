#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace {

using troupe::philox;
using troupe::random_key;
using troupe::random_stream;

// philox gives the results that its authors published: the three philox4x32-10
// lines of tests/kat_vectors in Random123.
TEST(Philox, MatchesThePublishedKnownAnswers) {
  using words = troupe::philox_counter;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const auto ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DiffersInEveryFieldOfItsKey) {
  const random_key keys[] = {{},
                             {.seed = 1},
                             {.seed = 1ull << 32},
                             {.replica = 1},
                             {.step = 1},
                             {.step = 1ull << 32},
                             {.op = 1},
                             {.op = troupe::draws_initial},
                             {.op = troupe::draws_order}};
  std::set<std::vector<std::uint32_t>> seen;
  for (const auto& key : keys) {
    random_stream s{key};
    seen.insert({s.next(), s.next()});
  }
  EXPECT_EQ(seen.size(), std::size(keys));
}

TEST(RandomStream, WordsAreTheSameInOrderByIndexAndAfterASeek) {
  const random_key key{.seed = 7, .replica = 2, .step = 9, .op = 4};
  random_stream in_order{key};
  for (std::uint64_t i = 0; i < 23; ++i) {
    random_stream other{key};
    other.seek(i);
    const auto word = in_order.next();
    EXPECT_EQ(word, other.word(i));
    EXPECT_EQ(word, other.next());
    EXPECT_EQ(in_order.position(), i + 1);
  }
}

TEST(RandomStream, SingleWordsAndBlocksAreTheSameAtEveryLevel) {
  const random_key key{.seed = 3, .op = 1};
  const random_stream s{key};
  // After block 2^32 - 1, the block number needs more than 32 bits.
  for (const std::uint64_t first : {0ull, 5ull, (1ull << 32) - 1})
    for (const std::size_t count : {0, 1, 63, 64, 65, 200}) {
      std::vector<std::uint32_t> words(4 * count + 1, 77);
      s.blocks(first, std::span{words}.first(4 * count));
      for (std::size_t i = 0; i < 4 * count; ++i)
        ASSERT_EQ(words[i], s.word(4 * first + i));
      EXPECT_EQ(words.back(), 77u);
    }
  const std::uint32_t high[] = {8, 9}, philox_key[] = {0xfffffff0, 7};
  for (const auto& level : troupe::kernel_levels()) {
    std::vector<std::uint32_t> words(4 * 70);
    level.philox(words.data(), 1ull << 33, 70, high, philox_key);
    for (std::uint32_t i = 0; i < 70; ++i) {
      const auto truth = philox({i, 2, 8, 9}, {0xfffffff0, 7});
      for (std::size_t j = 0; j < 4; ++j)
        EXPECT_EQ(words[4 * i + j], truth[j]) << level.level;
    }
  }
}

// Some results, recorded once, are the same on every machine. They must never
// change, because weights depend on them.
TEST(RandomStream, HasTheseBitsOnEveryMachine) {
  random_stream s{{.seed = 1, .replica = 2, .step = 3, .op = 4}};
  EXPECT_EQ(s.next(), 1864897617u);
  EXPECT_EQ(s.uniform(), 0x1.1be3aep-1f);
  EXPECT_EQ(s.normal(), -0x1.79593p+0f);
  EXPECT_EQ(troupe::permutation(5, {.seed = 1}),
            (std::vector<std::uint32_t>{4, 1, 2, 3, 0}));
}

TEST(RandomStream, DrawsBelowNAllEquallyOften) {
  for (const std::uint32_t n : {1u, 2u, 3u, 7u, 10u, 0x8000'0001u}) {
    constexpr int draws = 70'000;
    random_stream s{{.seed = 5, .op = n}};
    std::vector<int> counts(7);
    const auto bins = std::min<std::uint32_t>(n, 7);
    for (int i = 0; i < draws; ++i) {
      const auto x = s.below(n);
      ASSERT_LT(x, n);
      ++counts[std::uint64_t{x} * bins / n];
    }
    // With n = 10, each of the seven bins has 1 or 2 numbers.
    for (std::uint32_t b = 0; b < bins; ++b) {
      double probability = 0;
      if (n <= 10)
        for (std::uint32_t x = 0; x < n; ++x)
          probability += std::uint64_t{x} * bins / n == b ? 1.0 / n : 0;
      else
        probability = 1.0 / bins;
      const auto deviation = std::sqrt(draws * probability * (1 - probability));
      EXPECT_NEAR(counts[b], draws * probability, 5 * deviation + 1e-9) << n;
    }
  }
}

TEST(Uniform, StaysBelowItsUpperEndEvenWhereItWouldRoundToIt) {
  std::vector<float> x(100'000);
  const auto low = 16'777'215.0f, high = 16'777'216.0f; // Adjacent floats.
  troupe::fill_uniform(x, low, high, {.seed = 1});
  EXPECT_EQ(*std::ranges::max_element(x), low);
  EXPECT_EQ(*std::ranges::min_element(x), low);
}

TEST(Uniform, HasTheMomentsOfItsRange) {
  constexpr std::size_t n = 1'000'000;
  std::vector<float> x(n);
  troupe::fill_uniform(x, -2, 4, {.seed = 2});
  double sum = 0, squares = 0;
  for (const auto each : x) {
    ASSERT_TRUE(each >= -2 && each < 4);
    sum += each;
    squares += (each - 1.0) * (each - 1.0);
  }
  // The variance is (high - low)^2 / 12 = 3. The bounds are five standard
  // deviations of the estimates.
  EXPECT_NEAR(sum / n, 1, 5 * std::sqrt(3.0 / n));
  EXPECT_NEAR(squares / n, 3, 5 * std::sqrt(7.2 / n));
}

TEST(Normal, IsTheQuantileOfItsWord) {
  for (std::uint64_t word = 0; word < (1ull << 32); word += 9'999'991) {
    const auto p = (static_cast<double>(word) + 0.5) * 0x1p-32;
    const double z = troupe::normal_of(static_cast<std::uint32_t>(word));
    const auto back = 0.5 * std::erfc(-z / std::sqrt(2.0));
    const auto density =
      std::exp(-z * z / 2) / std::sqrt(2 * 3.141592653589793);
    // `back` is the normal distribution function at z, and p is its value at
    // the exact quantile. Rounding z to a float changes z by at most 2^-24 |z|.
    // The function then changes by `density` times as much.
    EXPECT_NEAR(back, p, density * std::fabs(z) * 0x1p-24 + 1e-15) << word;
  }
  EXPECT_EQ(troupe::normal_of(0), -troupe::normal_of(0xffff'ffff));
  EXPECT_NEAR(troupe::normal_of(0), -6.338, 1e-3);
}

TEST(Normal, HasTheRequestedMoments) {
  constexpr std::size_t n = 1'000'000;
  std::vector<float> x(n);
  troupe::fill_normal(x, 3, 0.5f, {.seed = 3});
  double sum = 0, squares = 0, fourth = 0;
  for (const auto each : x) {
    const auto z = (static_cast<double>(each) - 3) / 0.5;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(double(n)));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96.0 / n));
}

TEST(Bernoulli, HasTheRequestedProbability) {
  constexpr std::size_t n = 1'000'000;
  for (const auto p : {0.0, 1e-3, 0.5, 0.9, 1.0}) {
    std::vector<float> x(n);
    troupe::fill_bernoulli(x, p, 2.5f, {.seed = 4});
    const auto hits = static_cast<double>(std::ranges::count(x, 2.5f));
    EXPECT_EQ(hits + static_cast<double>(std::ranges::count(x, 0.0f)), n);
    EXPECT_NEAR(hits, p * n, 5 * std::sqrt(n * p * (1 - p))) << p;
  }
}

TEST(Fills, ARangeHasTheBitsOfTheWhole) {
  const random_key key{.seed = 8};
  std::vector<float> whole(300), range(300);
  const auto fill = [&](int kind, std::span<float> out, std::uint64_t first) {
    if (kind == 0)
      troupe::fill_uniform(out, -1, 1, key, first);
    else if (kind == 1)
      troupe::fill_normal(out, 0, 1, key, first);
    else
      troupe::fill_bernoulli(out, 0.3, 1, key, first);
  };
  for (int kind = 0; kind < 3; ++kind) {
    fill(kind, whole, 0);
    for (std::size_t begin = 0; begin < 9; ++begin)
      for (std::size_t end = begin; end <= 300; end += 37) {
        std::span<float> out{range.data(), end - begin};
        fill(kind, out, begin);
        EXPECT_TRUE(std::ranges::equal(
          out, std::span{whole}.subspan(begin, end - begin)));
      }
  }
}

TEST(Permutation, ContainsEachNumberOnce) {
  for (const std::uint64_t n : {0, 1, 2, 5, 1000}) {
    auto p = troupe::permutation(n, {.seed = n});
    std::ranges::sort(p);
    ASSERT_EQ(p.size(), n);
    for (std::uint32_t i = 0; i < n; ++i)
      EXPECT_EQ(p[i], i);
  }
}

TEST(Permutation, EveryOrderOfFourIsEquallyLikely) {
  std::map<std::vector<std::uint32_t>, int> counts;
  constexpr int draws = 24'000;
  for (std::uint64_t i = 0; i < draws; ++i)
    ++counts[troupe::permutation(4, {.seed = 6, .step = i})];
  EXPECT_EQ(counts.size(), 24u);
  double chi = 0;
  for (const auto& [order, count] : counts)
    chi += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi, 49.7); // 99.9 % quantile at 23 degrees of freedom.
}

TEST(Permutation, RejectsMoreThan32Bits) {
  EXPECT_THROW(troupe::permutation(1ull << 32, {}), std::logic_error);
}

} // namespace
