#pragma once

#include "troupe/training/loop/feed/batch_copy.hpp"

#include <deque>

namespace troupe {

/// Copies the rows of a step to the devices of the replicas of this process,
/// while the devices compute. Replicas on one device share a copy of all rows.
/// If there are several devices, each gets the rows of its replicas only. An
/// object can copy for one step after another. Not thread-safe.
class batch_copies {
public:
  /// @param devices which the replicas of this process take in turn. The CPU is
  ///        none of them.
  batch_copies(const std::vector<device>& devices,
               const local_placement& placement);

  /// As the functions of `batch_copy`.
  void reserve(const local_batch& like);
  void start(const local_batch& rows);
  void synchronize();
  void release() noexcept;

  /// Returns the copies that a replica computes with, as `batch_copy::rows`.
  /// They have at least the rows of this replica.
  /// @param index of the replica in this process.
  const local_batch& rows_of(std::size_t index);

private:
  /// Returns the rows that a copy has.
  local_batch part_of(const local_batch& rows, std::size_t copy) const;

  const local_placement placement_;
  /// One for all replicas, or one for each of them.
  std::deque<batch_copy> copies_;
};

} // namespace troupe
