#include "troupe/training/strategies/local_batches.hpp"

#include <stdexcept>

namespace troupe {

batch select_rows(const batch& source, const row_range& rows) {
  return {source.inputs.slice(rows.begin, rows.end),
          source.labels.slice(rows.begin, rows.end), source.global_rows};
}

namespace {

bool can_read_own_rows(const data::dataset& batches,
                       const data::position& start,
                       const replica_group::replica_range& local_replicas,
                       std::uint32_t replicas) {
  if (local_replicas.count == replicas)
    return false; // This process has all replicas.
  const auto size = batches.size();
  return (!size || start.index < *size) && batches.batch_rows(start);
}

} // namespace

batch local_batch::batch_of_replica(std::uint32_t replica,
                                    std::uint32_t replicas) const {
  const auto range = shard_of(global_rows, replica, replicas);
  return select_rows(rows, {range.begin - first_row, range.end - first_row});
}

local_batches::local_batches(const data::dataset& batches,
                             const data::position& start,
                             const replica_group::replica_range& local_replicas,
                             std::uint32_t replicas)
  : batches_{batches},
    local_replicas_{local_replicas},
    replicas_{replicas},
    reads_own_rows_{
      can_read_own_rows(batches, start, local_replicas, replicas)},
    cursor_{(reads_own_rows_ ? batches.shard(
               local_replicas.first,
               local_replicas.first + local_replicas.count, replicas)
                             : batches)
              .iterate(start)} {}

std::optional<local_batch> local_batches::next() {
  const auto position = cursor_.save();
  auto read = cursor_.next();
  if (!read)
    return std::nullopt;
  if (read->labels.dims().rank() != 1)
    throw std::logic_error("a dataset is distributed after batch(); this one "
                           "yields single examples");
  local_batch out{std::move(*read)};
  out.global_rows =
    reads_own_rows_ ? static_cast<std::int64_t>(*batches_.batch_rows(position))
                    : out.rows.labels.dims()[0];
  const auto range =
    shard_of(out.global_rows, local_replicas_.first,
             local_replicas_.first + local_replicas_.count, replicas_);
  out.first_row = range.begin;
  if (!reads_own_rows_ && local_replicas_.count < replicas_)
    out.rows = select_rows(out.rows, range);
  out.rows.global_rows = out.global_rows;
  return out;
}

} // namespace troupe
