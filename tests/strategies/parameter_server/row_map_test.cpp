#include "troupe/strategies/parameter_server/row_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe::parameter_server {
namespace {

/// Returns what the map has: by number, the first float and the last tag.
std::map<std::uint32_t, std::pair<float, std::uint32_t>>
content(const row_map& from) {
  std::map<std::uint32_t, std::pair<float, std::uint32_t>> out;
  from.for_each([&](const row_map::entry& x) {
    EXPECT_EQ(x.values().front(), x.values().back());
    out[x.number()] = {x.values().front(), x.tag(1)};
  });
  return out;
}

TEST(RowMap, KeepsWhatWasInserted) {
  std::mt19937 random{7};
  row_map rows{3, 2};
  std::map<std::uint32_t, std::pair<float, std::uint32_t>> expected;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    // Half of the numbers are near one another, as the rows of a part often
    // are.
    const auto number = random() % 2 == 0 ? random() : random() % 10'000;
    if (random() % 3 == 0) {
      rows.erase(number);
      expected.erase(number);
    } else if (!rows.find(number)) {
      const auto made = rows.insert(number);
      std::ranges::fill(made.values(), static_cast<float>(i));
      made.tag(1) = i;
      expected[number] = {static_cast<float>(i), i};
    }
    ASSERT_EQ(static_cast<bool>(rows.find(number)), expected.contains(number));
  }
  EXPECT_EQ(rows.size(), expected.size());
  EXPECT_EQ(content(rows), expected);
  for (const auto& [number, values] : expected)
    ASSERT_EQ(rows.find(number).tag(1), values.second);

  const auto copy = rows;
  for (std::size_t i = 0; i < rows.buckets(); ++i)
    rows.erase_if(i, [](const row_map::entry& x) { return x.tag(1) % 2 == 0; });
  EXPECT_EQ(content(copy), expected);
  std::erase_if(expected,
                [](const auto& x) { return x.second.second % 2 == 0; });
  EXPECT_EQ(content(rows), expected);
  EXPECT_EQ(rows.size(), expected.size());
  EXPECT_THROW(rows.insert(expected.begin()->first), std::logic_error);
}

TEST(RowMap, HasBucketsOfAboutEqualSize) {
  row_map rows{1};
  for (std::uint32_t i = 0; i < 100'000; ++i)
    rows.insert(i * 8);
  EXPECT_EQ(rows.buckets(), 100'000u / row_map::mean_rows);
  std::size_t largest = 0;
  for (std::size_t i = 0; i < rows.buckets(); ++i) {
    std::size_t count = 0;
    rows.erase_if(i, [&](const row_map::entry&) {
      ++count;
      return false;
    });
    largest = std::max(largest, count);
  }
  // A bucket that is divided late in a round has twice the mean.
  EXPECT_LT(largest, 4 * row_map::mean_rows);
}

TEST(RowMap, NeedsFewBytesBesideTheFloats) {
  for (const std::size_t floats : {1u, 16u, 48u}) {
    row_map rows{floats, 1};
    for (std::uint32_t i = 0; i < 50'000; ++i)
      rows.insert(i * 77);
    const auto of_row = static_cast<double>(rows.bytes()) / 50'000;
    const auto expected = static_cast<double>(4 * (floats + 2) + 1);
    EXPECT_NEAR(of_row, expected, 0.2);
    EXPECT_EQ(rows.row_bytes(), expected);
  }
}

TEST(RowMap, CallsForEachPositionInOrderWhileRowsAreInsertedAndErased) {
  for (const std::size_t count : {0u, 1u, 7u, 500u}) {
    row_map rows{2, 1};
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < count; ++i)
      numbers.push_back(std::int64_t(i * 7919 % 97)); // some are repeated
    std::vector<std::size_t> called;
    rows.for_each_prefetched(numbers, [&](std::size_t i) {
      called.push_back(i);
      const auto number = static_cast<std::uint32_t>(numbers[i]);
      if (rows.find(number))
        rows.erase(number);
      else
        rows.insert(number);
    });
    std::vector<std::size_t> expected(count);
    std::iota(expected.begin(), expected.end(), std::size_t{0});
    EXPECT_EQ(called, expected);
    std::map<std::int64_t, std::size_t> times;
    for (const auto number : numbers)
      ++times[number];
    for (const auto& [number, n] : times)
      EXPECT_EQ(bool(rows.find(static_cast<std::uint32_t>(number))), n % 2 == 1)
        << number;
  }
}

} // namespace
} // namespace troupe::parameter_server
