#include "troupe/strategies/parameter_server/row_sharding.hpp"
#include "troupe/tests/strategies/parameter_server/message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

using namespace troupe;
using namespace troupe::parameter_server;
using test::message_of;

namespace {

using sizes = std::vector<std::int64_t>;

sizes sizes_of(const row_sharding& x) {
  sizes out;
  for (std::uint32_t shard = 0; shard < x.shards(); ++shard)
    out.push_back(x.range_of(shard).size());
  return out;
}

/// Calls a function with each sharding of up to `max_rows` rows.
template <class F>
void for_all_shardings(std::int64_t max_rows, F&& f) {
  for (std::int64_t rows = 1; rows <= max_rows; ++rows)
    for (std::uint32_t shards = 1; shards <= rows; ++shards) {
      SCOPED_TRACE(std::to_string(rows) + " rows in " + std::to_string(shards)
                   + " shards");
      f(row_sharding{rows, shards});
    }
}

} // namespace

TEST(RowSharding, A16DividesAsDivOfTensorFlow) {
  EXPECT_EQ(sizes_of({10, 4}), (sizes{3, 3, 2, 2}));
  EXPECT_EQ(sizes_of({13, 5}), (sizes{3, 3, 3, 2, 2}));
  EXPECT_EQ(sizes_of({32, 3}), (sizes{11, 11, 10}));
  EXPECT_EQ(sizes_of({16, 3}), (sizes{6, 5, 5}));
  EXPECT_EQ(sizes_of({3, 3}), (sizes{1, 1, 1}));
}

TEST(RowSharding, GivesTheFirstShardsTheRemainder) {
  for_all_shardings(70, [](const row_sharding& x) {
    std::int64_t next = 0;
    for (std::uint32_t shard = 0; shard < x.shards(); ++shard) {
      const auto range = x.range_of(shard);
      EXPECT_EQ(range.begin, next);
      EXPECT_EQ(range.size(), x.rows() / x.shards()
                                + (shard < x.rows() % x.shards() ? 1 : 0));
      next = range.end;
    }
    EXPECT_EQ(next, x.rows());
  });
}

TEST(RowSharding, FindsTheShardOfEachRow) {
  for_all_shardings(70, [](const row_sharding& x) {
    for (std::uint32_t shard = 0; shard < x.shards(); ++shard)
      for (auto row = x.range_of(shard).begin; row < x.range_of(shard).end;
           ++row)
        EXPECT_EQ(x.shard_of(row), shard) << "row " << row;
  });
}

TEST(RowSharding, DividesTheLargestVariables) {
  constexpr auto rows = (std::int64_t{1} << 62) - 1;
  constexpr auto shards = row_sharding::max_shards;
  const row_sharding x{rows, shards};
  const auto size = (std::int64_t{1} << 42) - 1; // shards - 1 of 2^42, one less
  EXPECT_EQ(x.range_of(0), (row_range{0, size + 1}));
  EXPECT_EQ(x.range_of(shards - 1), (row_range{rows - size, rows}));
  EXPECT_EQ(x.shard_of(rows - 1), shards - 1);
  EXPECT_EQ(x.shard_of(rows - size), shards - 1);
  EXPECT_EQ(x.shard_of(rows - size - 1), shards - 2);
}

TEST(RowSharding, GivesAVariableWithoutRowsOneShard) {
  const row_sharding x{0, 1};
  EXPECT_EQ(x.range_of(0), (row_range{0, 0}));
  EXPECT_TRUE(x.slices({0, 5}).empty());
  EXPECT_THROW(x.shard_of(0), std::logic_error);
}

TEST(RowSharding, RejectsShardsWithoutRows) {
  EXPECT_EQ(message_of<std::logic_error>([] { row_sharding(3, 4); }),
            "3 rows cannot be divided into 4 shards");
  EXPECT_THROW(row_sharding(3, 0), std::logic_error);
  EXPECT_THROW(row_sharding(0, 0), std::logic_error);
  EXPECT_THROW(row_sharding(0, 2), std::logic_error);
  EXPECT_THROW(row_sharding(-1, 1), std::logic_error);
  constexpr auto most = row_sharding::max_shards;
  EXPECT_NO_THROW(row_sharding(most + 1, most));
  EXPECT_THROW(row_sharding(most + 1, most + 1), std::logic_error);
}

TEST(RowSharding, RejectsShardsAndRowsThatDoNotExist) {
  const row_sharding x{10, 4};
  EXPECT_EQ(message_of<std::logic_error>([&] { x.range_of(4); }),
            "shard 4 of 4");
  EXPECT_EQ(message_of<std::logic_error>([&] { x.shard_of(10); }),
            "row 10 of 10");
  EXPECT_EQ(message_of<std::logic_error>([&] { x.shard_of(-1); }),
            "row -1 of 10");
}

// -- slices -------------------------------------------------------------------

TEST(RowSlices, NameTheShardsThatHoldTheRows) {
  const row_sharding x{10, 4}; // 3, 3, 2, 2
  using list = std::vector<shard_slice>;
  EXPECT_EQ(x.slices({0, 10}),
            (list{{0, {0, 3}}, {1, {0, 3}}, {2, {0, 2}}, {3, {0, 2}}}));
  EXPECT_EQ(x.slices({2, 7}), (list{{0, {2, 3}}, {1, {0, 3}}, {2, {0, 1}}}));
  EXPECT_EQ(x.slices({4, 5}), (list{{1, {1, 2}}}));
  EXPECT_EQ(x.slices({3, 6}), (list{{1, {0, 3}}}));
}

TEST(RowSlices, HoldEachWantedRowOnceAndInOrder) {
  for_all_shardings(14, [](const row_sharding& x) {
    for (std::int64_t begin = 0; begin <= x.rows() + 2; ++begin)
      for (auto end = begin; end <= x.rows() + 2; ++end) {
        sizes expected(static_cast<std::size_t>(
          std::max<std::int64_t>(0, std::min(end, x.rows()) - begin)));
        std::iota(expected.begin(), expected.end(), begin);
        sizes found;
        std::int64_t last_shard = -1;
        for (const auto& slice : x.slices({begin, end})) {
          EXPECT_GT(slice.shard, last_shard);
          last_shard = slice.shard;
          const auto held = x.range_of(slice.shard);
          EXPECT_GE(slice.rows.begin, 0);
          EXPECT_LT(slice.rows.begin, slice.rows.end);
          EXPECT_LE(slice.rows.end, held.size());
          for (auto row = slice.rows.begin; row < slice.rows.end; ++row)
            found.push_back(held.begin + row);
        }
        EXPECT_EQ(found, expected) << "[" << begin << ", " << end << ")";
      }
  });
}

TEST(RowSlices, RejectWhatIsNoRange) {
  const row_sharding x{10, 4};
  EXPECT_EQ(message_of<std::logic_error>([&] {
              x.slices({5, 3});
            }),
            "the rows [5, 3) are no range");
  EXPECT_EQ(message_of<std::logic_error>([&] {
              x.slices({-1, 3});
            }),
            "the rows [-1, 3) are no range");
}

// As a checkpoint of one number of shards is restored into another.
TEST(RowSlices, MoveRowsBetweenAnyTwoNumbersOfShards) {
  for (std::int64_t rows = 1; rows <= 16; ++rows)
    for (std::uint32_t from = 1; from <= rows; ++from)
      for (std::uint32_t into = 1; into <= rows; ++into) {
        const row_sharding saved{rows, from}, restored{rows, into};
        for (std::uint32_t shard = 0; shard < into; ++shard) {
          auto next = restored.range_of(shard).begin;
          for (const auto& slice : saved.slices(restored.range_of(shard))) {
            EXPECT_EQ(saved.range_of(slice.shard).begin + slice.rows.begin,
                      next);
            next += slice.rows.size();
          }
          EXPECT_EQ(next, restored.range_of(shard).end)
            << rows << " rows, " << from << " to " << into << " shards";
        }
      }
}

TEST(RowSlices, JoinFourShardsToTwo) {
  const row_sharding saved{10, 4}, restored{10, 2};
  using list = std::vector<shard_slice>;
  EXPECT_EQ(saved.slices(restored.range_of(0)),
            (list{{0, {0, 3}}, {1, {0, 2}}}));
  EXPECT_EQ(saved.slices(restored.range_of(1)),
            (list{{1, {2, 3}}, {2, {0, 2}}, {3, {0, 2}}}));
}

// -- bytes of a row -----------------------------------------------------------

TEST(RowBytes, AreThoseOfAllAxesButTheFirst) {
  EXPECT_EQ(row_bytes({{10, 3, 4}, dtype::float32}), 48u);
  EXPECT_EQ(row_bytes({{10}, dtype::float64}), 8u);
  EXPECT_EQ(row_bytes({{}, dtype::bfloat16}), 2u);
  EXPECT_EQ(row_bytes({{5, 0}, dtype::float32}), 0u);
  EXPECT_EQ(row_bytes({{0, 5}, dtype::float32}), 20u);
}
