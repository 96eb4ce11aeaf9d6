#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/strategies/placement.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace troupe {

/// Relative sizes of the replicas' parts of a batch, by replica id. Empty: all
/// are equal.
using batch_shares = std::vector<std::uint32_t>;

/// Checks that there is one share for each replica, or none.
/// @errors throws std::invalid_argument with the value and a valid one.
void check_replica_shares(const batch_shares& shares, std::uint32_t replicas);

/// Returns the rows of the replicas in [first, last).
row_range rows_of_replicas(std::int64_t rows, std::uint32_t first,
                           std::uint32_t last, std::uint32_t replicas,
                           const batch_shares& shares);

/// For people and files: "3,1". Equal shares: "equal".
std::string shares_text(const batch_shares& shares);

/// The rows of a global batch that belong to the replicas of this process.
struct local_batch {
  /// Consecutive rows of the global batch.
  struct piece {
    batch rows;
    std::int64_t first_row = 0; ///< Index of the first row in the global batch.
  };

  piece first;
  /// The further pieces of a process whose replicas are not consecutive,
  /// ascending.
  pooled<piece> more;
  std::int64_t global_rows = 0; ///< Rows of the global batch.
  /// Null: the shares of all replicas are equal.
  std::shared_ptr<const batch_shares> shares{};

  /// Returns the rows of one replica. The result shares the elements of `rows`.
  /// @pre the replica runs in this process.
  batch batch_of_replica(std::uint32_t replica, std::uint32_t replicas) const;
  /// Returns a batch that has the rows of one replica only. The result shares
  /// the elements of `rows`.
  /// @pre the replica runs in this process.
  local_batch part_of_replica(std::uint32_t replica,
                              std::uint32_t replicas) const;
};

/// Reads the rows of this process from the global batches of an epoch. If
/// `dataset::batch_rows` cannot tell the row count of a batch before the read,
/// the whole batch is read. Then the rows of this process are selected.
class local_batches {
public:
  /// @errors throws as `check_replica_shares`.
  local_batches(const data::dataset& batches, const data::position& start,
                const local_placement& placement,
                const batch_shares& shares = {});

  /// Returns the rows of the next batch. None: the epoch has ended.
  /// @errors throws the exception that reading the dataset throws, and
  ///         std::logic_error if the dataset yields single examples.
  std::optional<local_batch> next();

  /// Returns the rows of the next batch, and waits for them without a timeout.
  /// None: the epoch has ended.
  /// @errors as the other, but for the timeout. Throws `data::read_cancelled`
  ///         soon after a stop is requested; then this object is not used any
  ///         more.
  std::optional<local_batch> next(const std::stop_token& stop);

  data::position save() const { return cursors_.front().save(); }

private:
  /// @param read_element calls `next` of a cursor.
  template <class Read>
  std::optional<local_batch> read_next(const Read& read_element);

  data::dataset batches_;
  std::uint32_t replicas_;
  std::shared_ptr<const batch_shares> shares_; ///< Null: equal shares.
  /// The ranges of consecutive replicas of this process, each of which has a
  /// cursor that reads its rows. Empty: one cursor reads all rows.
  std::vector<replica_range> ranges_;
  std::vector<data::cursor> cursors_;
};

} // namespace troupe
