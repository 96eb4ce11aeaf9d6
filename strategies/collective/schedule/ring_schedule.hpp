#pragma once

#include "troupe/strategies/collective/ring.hpp"
#include "troupe/strategies/collective/schedule/schedule.hpp"

namespace troupe::collective {

/// Schedule of a sum by ring (ring.hpp) between two or more processes. It says
/// which hop of which group of chunks is next, and what has to be received
/// before.
class ring_schedule final : public schedule {
public:
  /// @param placed must outlive the schedule.
  explicit ring_schedule(const local_placement& placed) : placement_{placed} {}

  void prepare(operation& op) const override;
  /// Only the queues to the next process have packets. The last group may have
  /// fewer than P chunks; hops without a chunk are passed over.
  bool find(const operation& op, cursor& position,
            const queue_id& queue) const override;
  void label(packet_header& header, const operation& op, const cursor& position,
             const queue_id& queue) const override;
  std::optional<payload>
  payload_of(const operation& op, const cursor& position,
             const packet_header& header, const queue_id& queue,
             const queue_positions& positions) const override;
  /// A contribution is added in the memory of the result. So it can be popped
  /// immediately, even if the queue to the next process is full.
  destination destination_of(operation& op, const cursor& position,
                             const packet_header& header, const queue_id& queue,
                             const queue_positions& positions) const override;
  bool advance(const operation& op, cursor& position,
               const queue_id& queue) const override;
  /// A process is silent if the next expected packet needs its contribution,
  /// but no sum that has arrived includes a contribution of that process. If no
  /// process is silent, returns the previous process.
  std::vector<std::uint32_t>
  silent_processes(const operation& op, std::uint64_t number,
                   const queue_positions& positions) const override;

private:
  ring ring_of(const operation& op) const {
    return {placement_.job.processes(), op.sequence};
  }
  std::uint32_t chunk_at(const operation& op, const cursor& position,
                         lane_id lane, std::uint32_t sender) const;
  bool is_result_available(const operation& op, const cursor& position,
                           const queue_positions& positions) const;
  bool contribution_was_sent(const operation& op, const cursor& position,
                             std::uint32_t chunk,
                             const queue_positions& positions) const;

  const local_placement& placement_;
};

} // namespace troupe::collective
