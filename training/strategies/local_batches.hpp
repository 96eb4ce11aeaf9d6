#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/strategies/placement.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

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

  /// Returns the rows of one replica. The result shares the elements of `rows`.
  /// @pre the replica runs in this process.
  batch batch_of_replica(std::uint32_t replica, std::uint32_t replicas) const;
};

/// Reads the rows of this process from the global batches of an epoch. If
/// `dataset::batch_rows` cannot tell the row count of a batch before the read,
/// the whole batch is read, and the rows of this process are selected.
class local_batches {
public:
  local_batches(const data::dataset& batches, const data::position& start,
                const local_placement& placement);

  /// Returns the rows of the next batch. None: the epoch has ended.
  /// @errors throws the exception that reading the dataset throws, and
  ///         std::logic_error if the dataset yields single examples.
  std::optional<local_batch> next();

  data::position save() const { return cursors_.front().save(); }

private:
  data::dataset batches_;
  std::uint32_t replicas_;
  /// The ranges of consecutive replicas of this process, each of which has a
  /// cursor that reads its rows. Empty: one cursor reads all rows.
  std::vector<replica_range> ranges_;
  std::vector<data::cursor> cursors_;
};

} // namespace troupe
