#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/training/strategies/local_batches.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace troupe {

/// Gives each replica of this process the batch of a step. All of these
/// replicas share one read pipeline, and one replica may be several steps ahead
/// of another.
class batch_feed {
public:
  /// @param start position in the dataset of the batch of step `first_step`.
  /// @param group the replica group whose local replicas request the batches.
  /// @param shares of the replicas; see `rows_of_replicas`.
  batch_feed(const data::dataset& batches, const data::position& start,
             std::uint64_t first_step, const replica_group& group,
             const batch_shares& shares = {});

  /// Returns the batch of a step. Every replica may request the batch any
  /// number of times. The feed discards the batch of step s when a replica
  /// requests the batch of a step after s + `max_steps_ahead`. If this process
  /// has one replica, the feed discards the batch when the replica requests the
  /// next batch.
  /// @errors throws the exception of a failed read, and std::runtime_error if
  ///         the dataset's timeout expires. Throws std::logic_error if the
  ///         epoch ends before this step or the batch was discarded.
  local_batch batch_of_step(std::uint64_t step);

private:
  std::mutex lock_;
  local_batches batches_;
  std::uint64_t next_; ///< First step whose batch has not been read.
  std::uint64_t oldest_;
  std::vector<local_batch> ring_; ///< Batch of step s at index s % size.
};

} // namespace troupe
