#include "troupe/strategies/parameter_server/partitioner.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace troupe::parameter_server {

namespace {

void require_at_least(std::int64_t limit, std::string_view owner,
                      std::string_view argument, std::int64_t value) {
  if (value < limit)
    throw std::invalid_argument(
      std::string{owner} + ": " + std::string{argument} + " is "
      + std::to_string(value) + "; it must be at least "
      + std::to_string(limit));
}

void require_rows(std::string_view owner, const tensor_spec& variable) {
  if (variable.dims.rank() == 0)
    throw std::invalid_argument(std::string{owner}
                                + ": a scalar has no rows to divide");
}

std::vector<std::int64_t> along_first_axis(std::int64_t shards,
                                           const tensor_spec& variable) {
  std::vector<std::int64_t> out(variable.dims.rank(), 1);
  out.front() = shards;
  return out;
}

/// Returns ceil(x / y). @pre x >= 0, y > 0
constexpr std::int64_t divided_up(std::int64_t x, std::int64_t y) {
  return x / y + (x % y > 0 ? 1 : 0);
}

/// Returns the bytes of a variable, at most the maximum of the type.
std::int64_t bytes_of(const tensor_spec& variable) {
  std::int64_t out = 0;
  return __builtin_mul_overflow(variable.dims.front(), row_bytes(variable),
                                &out)
           ? std::numeric_limits<std::int64_t>::max()
           : out;
}

std::string text_of(const std::vector<std::int64_t>& numbers) {
  std::string out = "[";
  for (const auto x : numbers)
    out += (out.size() > 1 ? ", " : "") + std::to_string(x);
  return out + "]";
}

} // namespace

partitioner fixed_shards_partitioner(std::int64_t num_shards) {
  constexpr std::string_view self = "fixed_shards_partitioner";
  require_at_least(1, self, "num_shards", num_shards);
  return [=](const tensor_spec& variable) {
    require_rows(self, variable);
    return along_first_axis(std::min(num_shards, variable.dims.front()),
                            variable);
  };
}

partitioner min_size_partitioner(std::int64_t min_shard_bytes,
                                 std::int64_t max_shards) {
  constexpr std::string_view self = "min_size_partitioner";
  require_at_least(1, self, "min_shard_bytes", min_shard_bytes);
  require_at_least(1, self, "max_shards", max_shards);
  return [=](const tensor_spec& variable) {
    require_rows(self, variable);
    const auto wanted = divided_up(bytes_of(variable), min_shard_bytes);
    const auto possible = std::min(variable.dims.front(), max_shards);
    return along_first_axis(
      std::max<std::int64_t>(1, std::min(wanted, possible)), variable);
  };
}

partitioner max_size_partitioner(std::int64_t max_shard_bytes,
                                 std::int64_t max_shards) {
  constexpr std::string_view self = "max_size_partitioner";
  require_at_least(1, self, "max_shard_bytes", max_shard_bytes);
  require_at_least(0, self, "max_shards", max_shards);
  return [=](const tensor_spec& variable) {
    require_rows(self, variable);
    const auto rows = variable.dims.front();
    const auto bytes_of_row = static_cast<std::int64_t>(row_bytes(variable));
    if (rows == 0 || bytes_of_row == 0)
      throw std::invalid_argument(std::string{self} + ": a variable "
                                  + to_string(variable)
                                  + " has no elements to divide");
    const auto rows_of_shard =
      std::max<std::int64_t>(1, max_shard_bytes / bytes_of_row);
    const auto shards = divided_up(rows, rows_of_shard);
    return along_first_axis(
      max_shards > 0 ? std::min(shards, max_shards) : shards, variable);
  };
}

row_sharding shard_rows(const partitioner& rule, std::string_view name,
                        const tensor_spec& variable) {
  const auto rank = variable.dims.rank();
  if (rank == 0)
    return {1, 1};
  const auto rows = variable.dims.front();
  if (!rule || rows == 0)
    return {rows, 1};
  const auto numbers = rule(variable);
  const auto require = [&](bool holds, const std::string& what_would_do) {
    if (!holds)
      throw std::invalid_argument("the partitioner returned " + text_of(numbers)
                                  + " for the variable '" + std::string{name}
                                  + "' " + to_string(variable) + "; "
                                  + what_would_do);
  };
  require(numbers.size() == rank,
          "it must return " + std::to_string(rank)
            + (rank == 1 ? " number" : " numbers, one for each axis"));
  require(numbers.front() >= 1, "the first number must be at least 1");
  require(std::all_of(numbers.begin() + 1, numbers.end(),
                      [](std::int64_t x) { return x == 1; }),
          "all numbers after the first must be 1, because only the first axis "
          "can be divided");
  const auto shards = std::min(numbers.front(), rows);
  require(shards <= row_sharding::max_shards,
          "a variable can have at most "
            + std::to_string(row_sharding::max_shards) + " shards");
  return {rows, static_cast<std::uint32_t>(shards)};
}

} // namespace troupe::parameter_server
