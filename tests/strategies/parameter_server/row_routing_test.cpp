#include "troupe/strategies/parameter_server/row_routing.hpp"
#include "troupe/tests/strategies/parameter_server/message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

using namespace troupe;
using namespace troupe::parameter_server;
using test::message_of;

namespace {

using row_ids = std::vector<std::int64_t>;
using positions = std::vector<std::size_t>;

row_ids rows_of(const routed_rows& x, std::uint32_t shard) {
  const auto rows = x.rows(shard);
  return {rows.begin(), rows.end()};
}

positions positions_of(const routed_rows& x, std::uint32_t shard) {
  const auto list = x.positions(shard);
  return {list.begin(), list.end()};
}

/// Rows of `width` elements; element i of the table is i.
std::vector<float> counted_table(std::int64_t rows, std::size_t width) {
  std::vector<float> out(static_cast<std::size_t>(rows) * width);
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

/// Returns the elements of each shard of a table.
std::vector<std::vector<float>> shards_of(const row_sharding& x,
                                          const std::vector<float>& table,
                                          std::size_t width) {
  std::vector<std::vector<float>> out;
  for (std::uint32_t shard = 0; shard < x.shards(); ++shard) {
    const auto [begin, end] = x.range_of(shard);
    const auto* const first = table.data();
    out.emplace_back(first + static_cast<std::size_t>(begin) * width,
                     first + static_cast<std::size_t>(end) * width);
  }
  return out;
}

/// Reads rows of a sharded table, as a worker does.
std::vector<float> read(const row_sharding& sharding,
                        const std::vector<std::vector<float>>& shards,
                        std::size_t width, const row_ids& list) {
  const auto routed = route(sharding, "table", list);
  std::vector<float> out(list.size() * width, -1.0f);
  for (std::uint32_t shard = 0; shard < sharding.shards(); ++shard) {
    std::vector<float> answer;
    for (const auto row : routed.rows(shard)) {
      const auto* const first =
        shards[shard].data() + static_cast<std::size_t>(row) * width;
      answer.insert(answer.end(), first, first + width);
    }
    scatter_rows(std::as_bytes(std::span{answer}), routed.positions(shard),
                 width * sizeof(float), std::as_writable_bytes(std::span{out}));
  }
  return out;
}

/// Adds values to rows of a sharded table, as a worker and the servers do.
void add(const row_sharding& sharding, std::vector<std::vector<float>>& shards,
         std::size_t width, const row_ids& list,
         const std::vector<float>& values) {
  const auto routed = route(sharding, "table", list);
  for (std::uint32_t shard = 0; shard < sharding.shards(); ++shard) {
    const auto rows = routed.rows(shard);
    std::vector<float> sent(rows.size() * width);
    gather_rows(std::as_bytes(std::span{values}), routed.positions(shard),
                width * sizeof(float), std::as_writable_bytes(std::span{sent}));
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t j = 0; j < width; ++j)
        shards[shard][static_cast<std::size_t>(rows[i]) * width + j] +=
          sent[i * width + j];
  }
}

TEST(RowRouting, AsksForEachRowOnce) {
  const row_ids given{7, 2, 7, 7, 0};
  const auto found = distinct(given);
  EXPECT_EQ(found.rows, (std::vector<std::int64_t>{0, 2, 7}));
  EXPECT_EQ(found.positions, (std::vector<std::size_t>{2, 1, 2, 2, 0}));
  EXPECT_TRUE(distinct({}).rows.empty());
  const std::vector<std::int64_t> ascending{1, 5, 6};
  EXPECT_EQ(distinct(ascending).rows, ascending);
  EXPECT_EQ(distinct(ascending).positions, (std::vector<std::size_t>{0, 1, 2}));
  // So many that they are sorted by digits.
  std::vector<std::int64_t> many(3'000);
  for (std::size_t i = 0; i < many.size(); ++i)
    many[i] = std::int64_t(i * 7'919 % 1'000) << 20;
  const auto of_many = distinct(many);
  EXPECT_EQ(of_many.rows.size(), 1'000u);
  EXPECT_TRUE(std::ranges::is_sorted(of_many.rows));
  for (std::size_t i = 0; i < many.size(); ++i)
    ASSERT_EQ(of_many.rows[of_many.positions[i]], many[i]);
}

} // namespace

TEST(RowRouting, SortsIdsByShardAndKeepsTheirOrder) {
  const auto x = route({10, 4}, "table", row_ids{9, 0, 4, 9, 5, 2, 0, 3});
  EXPECT_EQ(x.shards(), 4u);
  EXPECT_EQ(rows_of(x, 0), (row_ids{0, 2, 0}));
  EXPECT_EQ(positions_of(x, 0), (positions{1, 5, 6}));
  EXPECT_EQ(rows_of(x, 1), (row_ids{1, 2, 0}));
  EXPECT_EQ(positions_of(x, 1), (positions{2, 4, 7}));
  EXPECT_EQ(rows_of(x, 2), row_ids{});
  EXPECT_EQ(positions_of(x, 2), positions{});
  EXPECT_EQ(rows_of(x, 3), (row_ids{1, 1}));
  EXPECT_EQ(positions_of(x, 3), (positions{0, 3}));
}

TEST(RowRouting, OfNoIdsGivesEachShardNone) {
  const auto x = route({10, 4}, "table", row_ids{});
  EXPECT_EQ(x.shards(), 4u);
  for (std::uint32_t shard = 0; shard < 4; ++shard) {
    EXPECT_TRUE(x.rows(shard).empty());
    EXPECT_TRUE(x.positions(shard).empty());
  }
}

TEST(RowRouting, OfAllRowsGivesEachShardItsRange) {
  for (std::int64_t rows = 1; rows <= 30; ++rows)
    for (std::uint32_t shards = 1; shards <= rows; ++shards) {
      const row_sharding sharding{rows, shards};
      row_ids all(static_cast<std::size_t>(rows));
      std::iota(all.begin(), all.end(), 0);
      const auto x = route(sharding, "table", all);
      for (std::uint32_t shard = 0; shard < shards; ++shard) {
        const auto [begin, end] = sharding.range_of(shard);
        row_ids expected(static_cast<std::size_t>(end - begin));
        std::iota(expected.begin(), expected.end(), 0);
        EXPECT_EQ(rows_of(x, shard), expected);
        positions expected_positions(expected.size());
        std::iota(expected_positions.begin(), expected_positions.end(),
                  static_cast<std::size_t>(begin));
        EXPECT_EQ(positions_of(x, shard), expected_positions);
      }
    }
}

TEST(RowRouting, GivesEachShardItsIdsInTheirOrder) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    const auto rows = static_cast<std::int64_t>(1 + rng() % 50);
    const row_sharding sharding{
      rows, static_cast<std::uint32_t>(1 + rng() % std::uint64_t(rows))};
    row_ids list(rng() % 60);
    for (auto& id : list)
      id = static_cast<std::int64_t>(rng() % std::uint64_t(rows));
    const auto x = route(sharding, "table", list);
    for (std::uint32_t shard = 0; shard < sharding.shards(); ++shard) {
      const auto [begin, end] = sharding.range_of(shard);
      row_ids expected;
      positions expected_positions;
      for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i] >= begin && list[i] < end) {
          expected.push_back(list[i] - begin);
          expected_positions.push_back(i);
        }
      EXPECT_EQ(rows_of(x, shard), expected);
      EXPECT_EQ(positions_of(x, shard), expected_positions);
    }
  }
}

TEST(RowRouting, NamesAnIdThatIsNoRow) {
  EXPECT_EQ(message_of<std::out_of_range>([] {
              route({10, 4}, "table", row_ids{0, 9, 10, 11});
            }),
            "id 2 is 10, but the variable 'table' has 10 rows");
  EXPECT_EQ(message_of<std::out_of_range>([] {
              route({1, 1}, "bias", row_ids{-1});
            }),
            "id 0 is -1, but the variable 'bias' has 1 row");
  EXPECT_EQ(message_of<std::out_of_range>([] {
              route({0, 1}, "empty", row_ids{0});
            }),
            "id 0 is 0, but the variable 'empty' has 0 rows");
}

TEST(RowRouting, RejectsAShardThatDoesNotExist) {
  const auto x = route({10, 4}, "table", row_ids{1});
  EXPECT_EQ(message_of<std::logic_error>([&] { x.rows(4); }), "shard 4 of 4");
  EXPECT_THROW(x.positions(4), std::logic_error);
  EXPECT_EQ(routed_rows{}.shards(), 0u);
  EXPECT_THROW(routed_rows{}.rows(0), std::logic_error);
}

// -- reads and writes of rows -------------------------------------------------

TEST(RowRouting, ReadsRowsInTheOrderOfTheirIds) {
  const row_sharding sharding{16, 3};
  const auto shards = shards_of(sharding, counted_table(16, 2), 2);
  EXPECT_EQ(read(sharding, shards, 2, {7, 7, 0}),
            (std::vector<float>{14, 15, 14, 15, 0, 1}));
}

TEST(RowRouting, ReadsWhatTheUnshardedTableHolds) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    const auto rows = static_cast<std::int64_t>(1 + rng() % 40);
    const auto width = rng() % 4;
    const row_sharding sharding{
      rows, static_cast<std::uint32_t>(1 + rng() % std::uint64_t(rows))};
    const auto table = counted_table(rows, width);
    row_ids list(rng() % 50);
    std::vector<float> expected;
    for (auto& id : list) {
      id = static_cast<std::int64_t>(rng() % std::uint64_t(rows));
      for (std::size_t j = 0; j < width; ++j)
        expected.push_back(table[static_cast<std::size_t>(id) * width + j]);
    }
    EXPECT_EQ(read(sharding, shards_of(sharding, table, width), width, list),
              expected);
  }
}

TEST(RowRouting, AddsToTheRowsOfTheUnshardedTable) {
  // 11, 11 and 10 rows; the ids are the first and last rows of the shards.
  const row_sharding sharding{32, 3};
  auto table = counted_table(32, 2);
  auto shards = shards_of(sharding, table, 2);
  const row_ids list{0, 10, 11, 12, 30, 31};
  std::vector<float> values(12);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 100 * static_cast<float>(i + 1);
  add(sharding, shards, 2, list, values);
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = 0; j < 2; ++j)
      table[static_cast<std::size_t>(list[i]) * 2 + j] += values[2 * i + j];
  EXPECT_EQ(shards, shards_of(sharding, table, 2));
  EXPECT_EQ(shards[0][0], 100.0f);
  EXPECT_EQ(shards[1][0], 22.0f + 500.0f);
  EXPECT_EQ(shards[2][19], 63.0f + 1200.0f);
}

TEST(RowRouting, AddsToARowThatOccursTwiceInTheOrderOfTheIds) {
  // 2^24 + 1 + 1 and 1 + 1 + 2^24 differ in float32.
  const row_sharding sharding{4, 2};
  std::vector<std::vector<float>> shards{{0, 0}, {0, 0}};
  add(sharding, shards, 1, {0, 3, 0, 3, 0, 3}, {0x1p24f, 1, 1, 1, 1, 0x1p24f});
  EXPECT_EQ(shards[0][0], 0x1p24f);
  EXPECT_EQ(shards[1][1], 0x1p24f + 2);
}

TEST(GatherRows, AndScatterRowsAreInverse) {
  const std::vector<float> table{0, 1, 10, 11, 20, 21};
  const positions order{2, 0, 1};
  std::vector<float> gathered(6), scattered(6);
  gather_rows(std::as_bytes(std::span{table}), order, 8,
              std::as_writable_bytes(std::span{gathered}));
  EXPECT_EQ(gathered, (std::vector<float>{20, 21, 0, 1, 10, 11}));
  scatter_rows(std::as_bytes(std::span{gathered}), order, 8,
               std::as_writable_bytes(std::span{scattered}));
  EXPECT_EQ(scattered, table);
}

TEST(GatherRows, AndScatterRowsLeaveAllOtherRows) {
  const std::vector<float> from{1, 2};
  std::vector<float> into{-1, -1, -1, -1};
  scatter_rows(std::as_bytes(std::span{from}), positions{3, 1}, 4,
               std::as_writable_bytes(std::span{into}));
  EXPECT_EQ(into, (std::vector<float>{-1, 2, -1, 1}));
}

TEST(GatherRows, AndScatterRowsRejectSizesThatDoNotFit) {
  std::vector<std::byte> three(12), two(8);
  const auto gather = [&](const positions& rows, std::size_t row_bytes) {
    return message_of<std::logic_error>(
      [&] { gather_rows(three, rows, row_bytes, two); });
  };
  const auto scatter = [&](const positions& rows, std::size_t row_bytes) {
    return message_of<std::logic_error>(
      [&] { scatter_rows(two, rows, row_bytes, three); });
  };
  EXPECT_EQ(gather({0, 2}, 4), "no error");
  EXPECT_EQ(scatter({0, 2}, 4), "no error");
  EXPECT_EQ(gather({0}, 4), "1 rows of 4 bytes in 8 bytes");
  EXPECT_EQ(scatter({0}, 4), "1 rows of 4 bytes in 8 bytes");
  EXPECT_EQ(gather({0, 3}, 4), "row 3 of 4 bytes in 12 bytes");
  EXPECT_EQ(scatter({0, 3}, 4), "row 3 of 4 bytes in 12 bytes");
  EXPECT_EQ(gather({0, 1, 2, 3, 4, 5, 6, 12}, 1),
            "row 12 of 1 bytes in 12 bytes");
  EXPECT_EQ(gather({0, 1}, 0), "2 rows of 0 bytes in 8 bytes");
  EXPECT_NO_THROW(gather_rows(three, positions{0, 1}, 0, {}));
}
