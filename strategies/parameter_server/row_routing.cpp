#include "troupe/strategies/parameter_server/row_routing.hpp"

#include "troupe/tensors/base/row_order.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>

namespace troupe::parameter_server {

namespace {

/// @param list bytes of the rows that are in the order of the positions.
/// @param whole bytes of the rows that the positions name.
void check_positions(std::span<const std::size_t> positions,
                     std::size_t row_bytes, std::size_t list,
                     std::size_t whole) {
  if (list != positions.size() * row_bytes)
    throw std::logic_error(std::to_string(positions.size()) + " rows of "
                           + std::to_string(row_bytes) + " bytes in "
                           + std::to_string(list) + " bytes");
  for (const auto position : positions)
    if (row_bytes > 0 && position >= whole / row_bytes)
      throw std::logic_error("row " + std::to_string(position) + " of "
                             + std::to_string(row_bytes) + " bytes in "
                             + std::to_string(whole) + " bytes");
}

} // namespace

void routed_rows::check(std::uint32_t shard) const {
  if (shard >= shards())
    throw std::logic_error("shard " + std::to_string(shard) + " of "
                           + std::to_string(shards()));
}

std::span<const std::int64_t> routed_rows::rows(std::uint32_t shard) const {
  check(shard);
  return std::span{rows_}.first(begins_[shard + 1]).subspan(begins_[shard]);
}

std::span<const std::size_t> routed_rows::positions(std::uint32_t shard) const {
  check(shard);
  return std::span{positions_}
    .first(begins_[shard + 1])
    .subspan(begins_[shard]);
}

routed_rows route(const row_sharding& sharding, std::string_view name,
                  std::span<const std::int64_t> ids) {
  routed_rows out;
  // First the number of rows of each shard, in the element after its own.
  out.begins_.assign(sharding.shards() + std::size_t{1}, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= sharding.rows())
      throw std::out_of_range("id " + std::to_string(i) + " is "
                              + std::to_string(ids[i]) + ", but the variable '"
                              + std::string{name} + "' has "
                              + std::to_string(sharding.rows())
                              + (sharding.rows() == 1 ? " row" : " rows"));
    ++out.begins_[sharding.shard_of(ids[i]) + 1];
  }
  std::partial_sum(out.begins_.begin(), out.begins_.end(), out.begins_.begin());
  out.rows_.resize(ids.size());
  out.positions_.resize(ids.size());
  auto next = out.begins_;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto shard = sharding.shard_of(ids[i]);
    const auto slot = next[shard]++;
    out.rows_[slot] = ids[i] - sharding.range_of(shard).begin;
    out.positions_[slot] = i;
  }
  return out;
}

distinct_rows distinct(std::span<const std::int64_t> ids) {
  distinct_rows out{{}, std::vector<std::size_t>(ids.size())};
  if (std::ranges::adjacent_find(ids, std::greater_equal{}) == ids.end()) {
    out.rows.assign(ids.begin(), ids.end());
    std::iota(out.positions.begin(), out.positions.end(), std::size_t{0});
    return out;
  }
  for (const auto& [row, at] : order_by_row(ids)) {
    if (out.rows.empty() || out.rows.back() != row)
      out.rows.push_back(row);
    out.positions[at] = out.rows.size() - 1;
  }
  return out;
}

void gather_rows(std::span<const std::byte> from,
                 std::span<const std::size_t> positions, std::size_t row_bytes,
                 std::span<std::byte> into) {
  check_positions(positions, row_bytes, into.size(), from.size());
  for (std::size_t i = 0; i < positions.size(); ++i)
    std::ranges::copy(from.subspan(positions[i] * row_bytes, row_bytes),
                      into.subspan(i * row_bytes, row_bytes).begin());
}

void scatter_rows(std::span<const std::byte> from,
                  std::span<const std::size_t> positions, std::size_t row_bytes,
                  std::span<std::byte> into) {
  check_positions(positions, row_bytes, from.size(), into.size());
  for (std::size_t i = 0; i < positions.size(); ++i)
    std::ranges::copy(
      from.subspan(i * row_bytes, row_bytes),
      into.subspan(positions[i] * row_bytes, row_bytes).begin());
}

} // namespace troupe::parameter_server
