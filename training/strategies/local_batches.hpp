#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/row_range.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// Returns some rows of a batch. The result shares the elements of `source`.
batch select_rows(const batch& source, const row_range& rows);

/// The rows of a global batch that belong to the replicas of this process.
struct local_batch {
  batch rows;
  std::int64_t first_row = 0;   ///< Index of the first row in the global batch.
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
                const replica_group::replica_range& local_replicas,
                std::uint32_t replicas);

  /// Returns the rows of the next batch. None: the epoch has ended.
  /// @errors throws the exception that reading the dataset throws, and
  ///         std::logic_error if the dataset yields single examples.
  std::optional<local_batch> next();

  data::position save() const { return cursor_.save(); }

private:
  data::dataset batches_;
  replica_group::replica_range local_replicas_;
  std::uint32_t replicas_;
  /// True if `cursor_` reads only the rows of this process. False: it reads
  /// whole global batches.
  bool reads_own_rows_;
  data::cursor cursor_;
};

} // namespace troupe
