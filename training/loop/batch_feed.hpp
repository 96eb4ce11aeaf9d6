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
  /// @param group whose local replicas ask for the batch of each step.
  batch_feed(const data::dataset& batches, const data::position& from,
             std::uint64_t first_step, const crew& over);

  /// Returns the batch of a step. Any replica may ask any number of times,
  /// while no replica has asked for one more than `max_steps_ahead` steps
  /// later.
  /// @errors throws what reading threw, std::runtime_error when the dataset's
  ///         timeout expires, std::logic_error beyond the end of the epoch.
  local_batch of(std::uint64_t step);

private:
  std::mutex lock_;
  local_batches batches_;
  std::uint64_t next_; ///< Number of the first step whose batch was not read.
  std::uint64_t oldest_;
  std::vector<local_batch> ring_; ///< By step, modulo its size.
};

} // namespace troupe
