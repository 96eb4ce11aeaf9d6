#include "troupe/strategies/parameter_server/row_sharding.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::parameter_server {

row_sharding::row_sharding(std::int64_t rows, std::uint32_t shards)
  : rows_{rows}, shards_{shards} {
  if (rows < 0 || shards < 1 || shards > max_shards
      || shards > std::max<std::int64_t>(rows, 1))
    throw std::logic_error(std::to_string(rows)
                           + " rows cannot be divided into "
                           + std::to_string(shards) + " shards");
  short_size_ = rows / shards;
  longer_count_ = rows % shards;
}

row_range row_sharding::range_of(std::uint32_t shard) const {
  if (shard >= shards_)
    throw std::logic_error("shard " + std::to_string(shard) + " of "
                           + std::to_string(shards_));
  const auto begin =
    shard * short_size_ + std::min<std::int64_t>(shard, longer_count_);
  return {begin, begin + short_size_ + (shard < longer_count_ ? 1 : 0)};
}

std::uint32_t row_sharding::shard_of(std::int64_t row) const {
  if (row < 0 || row >= rows_)
    throw std::logic_error("row " + std::to_string(row) + " of "
                           + std::to_string(rows_));
  const auto first_of_short = longer_count_ * (short_size_ + 1);
  return static_cast<std::uint32_t>(
    row < first_of_short
      ? row / (short_size_ + 1)
      : longer_count_ + (row - first_of_short) / short_size_);
}

std::vector<shard_slice> row_sharding::slices(row_range wanted) const {
  if (wanted.begin < 0 || wanted.end < wanted.begin)
    throw std::logic_error("the rows [" + std::to_string(wanted.begin) + ", "
                           + std::to_string(wanted.end) + ") are no range");
  std::vector<shard_slice> out;
  const auto end = std::min(wanted.end, rows_);
  for (auto row = wanted.begin; row < end;) {
    const auto shard = shard_of(row);
    const auto held = range_of(shard);
    const auto next = std::min(held.end, end);
    out.push_back({shard, {row - held.begin, next - held.begin}});
    row = next;
  }
  return out;
}

std::size_t row_bytes(const tensor_spec& variable) {
  const auto& dims = variable.dims;
  const auto elements =
    dims.rank() == 0 ? 1 : dims.axes(1, dims.rank()).elements();
  return elements * size_of(variable.type);
}

} // namespace troupe::parameter_server
