#include "troupe/strategies/parameter_server/partitioner.hpp"
#include "troupe/tests/strategies/parameter_server/message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

using namespace troupe;
using namespace troupe::parameter_server;
using test::message_of;

namespace {

using numbers = std::vector<std::int64_t>;

constexpr auto huge = std::numeric_limits<std::int64_t>::max();

tensor_spec column(std::int64_t rows, std::int64_t row_size = 1,
                   dtype type = dtype::float32) {
  return {{rows, row_size}, type};
}

/// A partitioner that always returns the same numbers.
partitioner returning(numbers x) {
  return [x](const tensor_spec&) { return x; };
}

std::string refusal(const partitioner& rule, const tensor_spec& variable) {
  return message_of<std::invalid_argument>(
    [&] { shard_rows(rule, "table", variable); });
}

} // namespace

// -- fixed number of shards ---------------------------------------------------

TEST(FixedShardsPartitioner, GivesEachShardARow) {
  for (std::int64_t shards = 1; shards < 20; ++shards)
    for (std::int64_t rows = 1; rows < 20; ++rows)
      EXPECT_EQ(fixed_shards_partitioner(shards)(column(rows, 3)),
                (numbers{std::min(shards, rows), 1}))
        << shards << " shards, " << rows << " rows";
}

TEST(FixedShardsPartitioner, ReturnsOneNumberForEachAxis) {
  const auto two = fixed_shards_partitioner(2);
  EXPECT_EQ(two({{7}, dtype::int64}), (numbers{2}));
  EXPECT_EQ(two({{26, 100, 16}, dtype::float32}), (numbers{2, 1, 1}));
  EXPECT_EQ(two({{5, 0}, dtype::float32}), (numbers{2, 1}));
  EXPECT_EQ(fixed_shards_partitioner(huge)(column(7)), (numbers{7, 1}));
}

TEST(FixedShardsPartitioner, RejectsLessThanOneShard) {
  EXPECT_EQ(
    message_of<std::invalid_argument>([] { fixed_shards_partitioner(0); }),
    "fixed_shards_partitioner: num_shards is 0; it must be at least 1");
  EXPECT_THROW(fixed_shards_partitioner(-1), std::invalid_argument);
}

// -- minimum size of a shard --------------------------------------------------

TEST(MinSizePartitioner, A19DividesNoVariableByDefault) {
  const auto rule = min_size_partitioner();
  EXPECT_EQ(rule(column(1)), (numbers{1, 1}));
  EXPECT_EQ(rule(column(1'000'000, 1000, dtype::float64)), (numbers{1, 1}));
}

TEST(MinSizePartitioner, A17DividesSixRowsOfFourBytes) {
  EXPECT_EQ(min_size_partitioner(4, 2)(column(6)), (numbers{2, 1}));
  EXPECT_EQ(min_size_partitioner(4, 10)(column(6)), (numbers{6, 1}));
  EXPECT_EQ(min_size_partitioner(256 * 1024, 16)(column(1024, 1024)),
            (numbers{16, 1}));
}

TEST(MinSizePartitioner, GivesTheMostShardsThatFillTheMinimumButOne) {
  for (std::int64_t rows = 1; rows <= 12; ++rows)
    for (std::int64_t row_size = 0; row_size <= 5; ++row_size)
      for (std::int64_t minimum = 1; minimum <= 70; ++minimum)
        for (const std::int64_t max_shards : {1, 2, 7, 100}) {
          const auto shards = min_size_partitioner(minimum, max_shards)(
            column(rows, row_size))[0];
          // The first of the numbers 1, 2, ... which satisfies a limit.
          std::int64_t expected = 1;
          while (expected < std::min(rows, max_shards)
                 && expected * minimum < 4 * rows * row_size)
            ++expected;
          EXPECT_EQ(shards, expected)
            << rows << " rows of " << 4 * row_size << " bytes, minimum "
            << minimum << ", at most " << max_shards << " shards";
        }
}

TEST(MinSizePartitioner, CountsTheBytesOfTheDtype) {
  const auto rule = min_size_partitioner(8, 100);
  EXPECT_EQ(rule(column(16, 1, dtype::uint8))[0], 2);
  EXPECT_EQ(rule(column(16, 1, dtype::bfloat16))[0], 4);
  EXPECT_EQ(rule(column(16, 1, dtype::float32))[0], 8);
  EXPECT_EQ(rule(column(16, 1, dtype::float64))[0], 16);
}

TEST(MinSizePartitioner, TakesTheLargestNumbers) {
  constexpr auto most = std::int64_t{1} << 62; // of the elements of a shape
  EXPECT_EQ(min_size_partitioner(huge, huge)(column(7)), (numbers{1, 1}));
  EXPECT_EQ(min_size_partitioner(1, huge)(column(7)), (numbers{7, 1}));
  EXPECT_EQ(min_size_partitioner(1, 3)({{most}, dtype::float64}), (numbers{3}));
}

TEST(MinSizePartitioner, DoesNotDivideAVariableWithoutElements) {
  EXPECT_EQ(min_size_partitioner(1, 10)(column(5, 0)), (numbers{1, 1}));
  EXPECT_EQ(min_size_partitioner(1, 10)(column(0, 5)), (numbers{1, 1}));
}

TEST(MinSizePartitioner, RejectsArgumentsBelowOne) {
  EXPECT_EQ(
    message_of<std::invalid_argument>([] { min_size_partitioner(0); }),
    "min_size_partitioner: min_shard_bytes is 0; it must be at least 1");
  EXPECT_EQ(
    message_of<std::invalid_argument>([] { min_size_partitioner(4, -2); }),
    "min_size_partitioner: max_shards is -2; it must be at least 1");
  EXPECT_THROW(min_size_partitioner(4, 0), std::invalid_argument);
  EXPECT_THROW(min_size_partitioner(-1, 1), std::invalid_argument);
}

// -- maximum size of a shard --------------------------------------------------

TEST(MaxSizePartitioner, A18DividesSixRowsOfFourBytes) {
  EXPECT_EQ(max_size_partitioner(4)(column(6)), (numbers{6, 1}));
  EXPECT_EQ(max_size_partitioner(4, 2)(column(6)), (numbers{2, 1}));
  EXPECT_EQ(max_size_partitioner(1024)(column(6)), (numbers{1, 1}));
}

TEST(MaxSizePartitioner, GivesTheFewestShardsThatKeepTheMaximum) {
  for (std::int64_t rows = 1; rows <= 12; ++rows)
    for (std::int64_t row_size = 1; row_size <= 5; ++row_size)
      for (std::int64_t maximum = 1; maximum <= 250; ++maximum)
        for (const std::int64_t max_shards : {0, 1, 2, 7, 100}) {
          const auto shards = max_size_partitioner(maximum, max_shards)(
            column(rows, row_size))[0];
          // The first of the numbers 1, 2, ... that needs no larger shards.
          const auto limit = max_shards == 0 ? rows : max_shards;
          std::int64_t expected = 1;
          while (
            expected < std::min(rows, limit)
            && row_sharding(rows, std::uint32_t(expected)).range_of(0).size()
                   * row_size * 4
                 > maximum)
            ++expected;
          EXPECT_EQ(shards, expected)
            << rows << " rows of " << 4 * row_size << " bytes, maximum "
            << maximum << ", at most " << max_shards << " shards";
        }
}

TEST(MaxSizePartitioner, TakesTheLargestNumbers) {
  EXPECT_EQ(max_size_partitioner(huge, huge)(column(7)), (numbers{1, 1}));
  EXPECT_EQ(max_size_partitioner(1, huge)(column(7)), (numbers{7, 1}));
}

TEST(MaxSizePartitioner, RejectsAVariableWithoutElements) {
  const auto rule = max_size_partitioner(1024);
  EXPECT_EQ(message_of<std::invalid_argument>([&] { rule(column(5, 0)); }),
            "max_size_partitioner: a variable float32[5, 0] has no elements to "
            "divide");
  EXPECT_THROW(rule(column(0, 5)), std::invalid_argument);
}

TEST(MaxSizePartitioner, RejectsArgumentsBelowTheirLimits) {
  EXPECT_EQ(
    message_of<std::invalid_argument>([] { max_size_partitioner(0); }),
    "max_size_partitioner: max_shard_bytes is 0; it must be at least 1");
  EXPECT_EQ(
    message_of<std::invalid_argument>([] { max_size_partitioner(4, -1); }),
    "max_size_partitioner: max_shards is -1; it must be at least 0");
  EXPECT_THROW(max_size_partitioner(-4), std::invalid_argument);
}

// -- all of them --------------------------------------------------------------

TEST(Partitioners, RejectAScalar) {
  const tensor_spec scalar{{}, dtype::float32};
  EXPECT_EQ(message_of<std::invalid_argument>(
              [&] { fixed_shards_partitioner(1)(scalar); }),
            "fixed_shards_partitioner: a scalar has no rows to divide");
  EXPECT_EQ(
    message_of<std::invalid_argument>([&] { min_size_partitioner()(scalar); }),
    "min_size_partitioner: a scalar has no rows to divide");
  EXPECT_EQ(
    message_of<std::invalid_argument>([&] { max_size_partitioner(1)(scalar); }),
    "max_size_partitioner: a scalar has no rows to divide");
}

// -- shard_rows ---------------------------------------------------------------

TEST(ShardRows, DividesByThePartitioner) {
  EXPECT_EQ(shard_rows(fixed_shards_partitioner(3), "table", column(16, 2)),
            (row_sharding{16, 3}));
  EXPECT_EQ(shard_rows(returning({4, 1}), "table", column(10)),
            (row_sharding{10, 4}));
}

TEST(ShardRows, GivesThePartitionerTheVariable) {
  const tensor_spec variable{{10, 2, 3}, dtype::bfloat16};
  tensor_spec given;
  shard_rows(
    [&](const tensor_spec& x) {
      given = x;
      return numbers{1, 1, 1};
    },
    "table", variable);
  EXPECT_EQ(given, variable);
}

TEST(ShardRows, DividesNothingWithoutAPartitioner) {
  EXPECT_EQ(shard_rows({}, "table", column(16)), (row_sharding{16, 1}));
}

TEST(ShardRows, GivesAVariableWithFewRowsAShardForEachRow) {
  EXPECT_EQ(shard_rows(returning({5, 1}), "table", column(3)),
            (row_sharding{3, 3}));
  EXPECT_EQ(shard_rows(returning({huge}), "table", {{3}, dtype::float32}),
            (row_sharding{3, 3}));
}

TEST(ShardRows, DoesNotAskThePartitionerForScalarsAndEmptyVariables) {
  const partitioner rule = [](const tensor_spec&) -> numbers {
    throw std::runtime_error("was called");
  };
  EXPECT_EQ(shard_rows(rule, "bias", {{}, dtype::float32}),
            (row_sharding{1, 1}));
  EXPECT_EQ(shard_rows(rule, "table", column(0, 4)), (row_sharding{0, 1}));
  EXPECT_EQ(message_of<std::runtime_error>(
              [&] { shard_rows(rule, "table", column(1)); }),
            "was called");
}

TEST(ShardRows, RejectsAWrongNumberOfAxes) {
  EXPECT_EQ(refusal(returning({2}), column(10, 4)),
            "the partitioner returned [2] for the variable 'table' "
            "float32[10, 4]; it must return 2 numbers, one for each axis");
  EXPECT_EQ(refusal(returning({2, 1, 1}), column(10, 4)),
            "the partitioner returned [2, 1, 1] for the variable 'table' "
            "float32[10, 4]; it must return 2 numbers, one for each axis");
  EXPECT_EQ(refusal(returning({}), {{10}, dtype::int32}),
            "the partitioner returned [] for the variable 'table' int32[10]; "
            "it must return 1 number");
}

TEST(ShardRows, RejectsDivisionOfOtherAxes) {
  const std::string rule =
    "all numbers after the first must be 1, because only "
    "the first axis can be divided";
  EXPECT_EQ(refusal(returning({2, 3}), column(10, 4)),
            "the partitioner returned [2, 3] for the variable 'table' "
            "float32[10, 4]; "
              + rule);
  for (const auto& x : {numbers{1, 1, 2}, {1, 2, 1}, {2, 0, 1}, {2, 1, -1}})
    EXPECT_TRUE(
      refusal(returning(x), {{4, 4, 4}, dtype::float32}).ends_with(rule))
      << x[0] << x[1] << x[2];
}

TEST(ShardRows, RejectsLessThanOneShard) {
  EXPECT_EQ(refusal(returning({0, 1}), column(10, 4)),
            "the partitioner returned [0, 1] for the variable 'table' "
            "float32[10, 4]; the first number must be at least 1");
  EXPECT_TRUE(refusal(returning({-3}), {{10}, dtype::float32})
                .ends_with("the first number must be at least 1"));
}

TEST(ShardRows, RejectsTooManyShards) {
  constexpr std::int64_t most = row_sharding::max_shards;
  EXPECT_EQ(
    shard_rows(returning({most}), "table", {{2 * most}, dtype::uint8}).shards(),
    most);
  EXPECT_EQ(refusal(returning({most + 1}), {{2 * most}, dtype::uint8}),
            "the partitioner returned [1048577] for the variable 'table' "
            "uint8[2097152]; a variable can have at most 1048576 shards");
}
