#pragma once

#include "troupe/strategies/collective/operation_log.hpp"
#include "troupe/strategies/collective/schedule/gather_schedule.hpp"
#include "troupe/strategies/collective/schedule/ring_schedule.hpp"
#include "troupe/strategies/collective/schedule/tree_schedule.hpp"

namespace troupe::collective {

/// Order of the packets in each queue: the packets of one started operation
/// after those of the other, each operation by its schedule.
class packet_order {
public:
  /// @param placed must outlive the order.
  /// @param log must outlive the order.
  packet_order(const local_placement& placed, const operation_log& log);

  /// Returns the schedule of an operation. With one process the sums by ring
  /// and by tree are equal, so the tree is used.
  const schedule& schedule_of(const operation& op) const;

  /// Moves `position` forward to the next packet of a queue. Does not move if
  /// there is a packet at `position`.
  /// @returns false if no operation that has started here has a further packet
  ///          in the queue.
  bool find(cursor& position, const queue_id& queue) const;

  /// Moves `position` forward to the next chunk that this process adds.
  /// @returns false if no operation that has started here has such a chunk.
  bool find_chunk_to_add(cursor& position) const;
  /// Returns the index of the chunk at `position`.
  /// @pre `find_chunk_to_add` returned true for the position.
  std::uint32_t chunk_to_add(const cursor& position) const;

  /// Returns the header of the packet at `position`.
  /// @pre `find` returned true for the position.
  packet_header header_of(const cursor& position, const queue_id& queue) const;

private:
  bool uses_tree(const operation& op) const {
    return &schedule_of(op) == &tree_;
  }

  const local_placement& placement_;
  const operation_log& log_;
  tree_schedule tree_;
  ring_schedule ring_;
  gather_schedule gather_;
};

} // namespace troupe::collective
