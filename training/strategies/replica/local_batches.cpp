#include "troupe/training/strategies/replica/local_batches.hpp"

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

/// Returns the rows of a replica in the global batch.
row_range range_of(const local_batch& rows, std::uint32_t replica,
                   std::uint32_t replicas) {
  return rows.shares
           ? shard_of(rows.global_rows, replica, replica + 1, *rows.shares)
           : shard_of(rows.global_rows, replica, replicas);
}

} // namespace

void check_replica_shares(const batch_shares& shares, std::uint32_t replicas) {
  const auto reject = [&](const std::string& problem) {
    throw std::invalid_argument("replica_shares " + shares_text(shares) + ": "
                                + problem);
  };
  if (!shares.empty() && shares.size() != replicas)
    reject("there are " + std::to_string(shares.size()) + " shares for "
           + std::to_string(replicas)
           + " replicas; give one for each replica of the job");
  for (std::size_t r = 0; r < shares.size(); ++r)
    if (shares[r] == 0 || shares[r] > max_share)
      reject("the share of replica " + std::to_string(r)
             + " is not a number from 1 to " + std::to_string(max_share)
             + "; give one that is, as in 3,1");
}

row_range rows_of_replicas(std::int64_t rows, std::uint32_t first,
                           std::uint32_t last, std::uint32_t replicas,
                           const batch_shares& shares) {
  return shares.empty() ? shard_of(rows, first, last, replicas)
                        : shard_of(rows, first, last, shares);
}

std::string shares_text(const batch_shares& shares) {
  std::string out;
  for (const auto share : shares)
    out += (out.empty() ? "" : ",") + std::to_string(share);
  return out.empty() ? "equal" : out;
}

batch local_batch::batch_of_replica(std::uint32_t replica,
                                    std::uint32_t replicas) const {
  const auto range = range_of(*this, replica, replicas);
  const auto* source = &first;
  for (const auto& one : more)
    if (one.first_row <= range.begin)
      source = &one;
  return select_rows(source->rows, {range.begin - source->first_row,
                                    range.end - source->first_row});
}

local_batch local_batch::part_of_replica(std::uint32_t replica,
                                         std::uint32_t replicas) const {
  local_batch out;
  out.first = {batch_of_replica(replica, replicas),
               range_of(*this, replica, replicas).begin};
  out.global_rows = global_rows;
  out.shares = shares;
  return out;
}

local_batches::local_batches(const data::dataset& batches,
                             const data::position& start,
                             const local_placement& placement,
                             const batch_shares& shares)
  : batches_{batches},
    replicas_{placement.job.replicas()},
    shares_{shares.empty() ? nullptr
                           : std::make_shared<const batch_shares>(shares)},
    ranges_{ranges_to_read(batches, start, placement)} {
  check_replica_shares(shares, replicas_);
  for (const auto& range : ranges_)
    cursors_.push_back(
      (shares_ ? batches.shard_by_shares(range.begin, range.end, *shares_)
               : batches.shard(range.begin, range.end, replicas_))
        .iterate(start));
  if (ranges_.empty())
    cursors_.push_back(batches.iterate(start));
}

std::optional<local_batch> local_batches::next() {
  return read_next([](data::cursor& from) { return from.next(); });
}

std::optional<local_batch> local_batches::next(const std::stop_token& stop) {
  return read_next([&](data::cursor& from) { return from.next(stop); });
}

template <class Read>
std::optional<local_batch> local_batches::read_next(const Read& read_element) {
  const auto position = save();
  local_batch out;
  out.shares = shares_;
  if (!ranges_.empty())
    if (const auto rows = batches_.batch_rows(position))
      out.global_rows = static_cast<std::int64_t>(*rows);
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    auto read = read_element(cursors_[i]);
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
        : rows_of_replicas(out.global_rows, ranges_[i].begin, ranges_[i].end,
                           replicas_, shares_ ? *shares_ : batch_shares{})
            .begin;
    local_batch::piece piece{std::move(*read), first_row};
    if (i == 0)
      out.first = std::move(piece);
    else
      out.more.push_back(std::move(piece));
  }
  return out;
}

} // namespace troupe
