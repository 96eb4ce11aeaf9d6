#pragma once

#include "troupe/training/strategies/local_batches.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace troupe {

/// The batches of an epoch by step. One pipeline feeds all replicas of the
/// process; a replica may be several steps ahead of another.
class batch_feed {
public:
  /// @param start position of the batch of `first_step`.
  /// @param group Group of the replicas of this process, which request the
  ///        batches.
  batch_feed(const data::dataset& batches, const data::position& start,
             std::uint64_t first_step, const replica_group& group);

  /// Returns the batch of a step. Every replica may request it, any number of
  /// times. It is discarded when a replica requests the batch of a step that is
  /// more than `max_steps_ahead` later. With one replica in this process, it is
  /// discarded when the next batch is requested.
  /// @errors throws what reading threw, std::runtime_error when the dataset's
  ///         timeout expires, std::logic_error beyond the end of the epoch.
  local_batch batch_of_step(std::uint64_t step);

private:
  std::mutex lock_;
  local_batches batches_;
  std::uint64_t next_; ///< Number of the first step whose batch was not read.
  std::uint64_t oldest_;
  std::vector<local_batch> ring_; ///< By step, modulo its size.
};

} // namespace troupe
