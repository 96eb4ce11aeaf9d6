#pragma once

#include "troupe/training/strategies/local_batches.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace troupe {

/// The batches of a pass by step: one pipeline feeds all replicas of the
/// process, though one may be a few steps ahead of another.
class batch_feed {
public:
  /// @param from       position of `first_step`'s batch.
  /// @param over       whose replicas here ask for each step.
  batch_feed(const data::dataset& batches, const data::position& from,
             std::uint64_t first_step, const crew& over);

  /// The batch of a step: any replica, any number of times, as long as no other
  /// asked for one more than `ahead` steps later.
  /// @errors throws what reading threw, std::runtime_error when the dataset's
  ///         patience ends, std::logic_error beyond the end of the pass.
  local_batch of(std::uint64_t step);

private:
  std::mutex lock_;
  local_batches batches_;
  std::uint64_t next_; ///< First step that was not read.
  std::uint64_t oldest_;
  std::vector<local_batch> ring_; ///< By step, modulo its size.
};

} // namespace troupe
