#include "troupe/training/strategies/local_batches.hpp"

#include <stdexcept>

namespace troupe {

namespace {

/// Returns the ranges of replicas whose rows this process reads with a cursor
/// of their own. Empty: it reads all rows with one cursor.
std::vector<replica_range> ranges_to_read(const data::dataset& batches,
                                          const data::position& start,
                                          const local_placement& placement) {
  const auto size = batches.size();
  const bool rows_are_known =
    (!size || start.index < *size) && batches.batch_rows(start);
  if (placement.hosts_all() || !rows_are_known)
    return {};
  return placement.job.ranges_of(placement.process);
}

} // namespace

batch local_batch::batch_of_replica(std::uint32_t replica,
                                    std::uint32_t replicas) const {
  const auto range = shard_of(global_rows, replica, replicas);
  const auto* source = &first;
  for (const auto& one : more)
    if (one.first_row <= range.begin)
      source = &one;
  return select_rows(source->rows, {range.begin - source->first_row,
                                    range.end - source->first_row});
}

local_batches::local_batches(const data::dataset& batches,
                             const data::position& start,
                             const local_placement& placement)
  : batches_{batches},
    replicas_{placement.job.replicas()},
    ranges_{ranges_to_read(batches, start, placement)} {
  for (const auto& range : ranges_)
    cursors_.push_back(
      batches.shard(range.begin, range.end, replicas_).iterate(start));
  if (ranges_.empty())
    cursors_.push_back(batches.iterate(start));
}

std::optional<local_batch> local_batches::next() {
  const auto position = save();
  local_batch out;
  if (!ranges_.empty())
    if (const auto rows = batches_.batch_rows(position))
      out.global_rows = static_cast<std::int64_t>(*rows);
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    auto read = cursors_[i].next();
    if (!read)
      return std::nullopt;
    if (!is_batch(*read))
      throw std::logic_error("a dataset is distributed after batch(); this one "
                             "yields single examples");
    if (ranges_.empty())
      out.global_rows = read->rows();
    read->global_rows = out.global_rows;
    const auto first_row =
      ranges_.empty()
        ? 0
        : shard_of(out.global_rows, ranges_[i].begin, replicas_).begin;
    local_batch::piece piece{std::move(*read), first_row};
    if (i == 0)
      out.first = std::move(piece);
    else
      out.more.push_back(std::move(piece));
  }
  return out;
}

} // namespace troupe
