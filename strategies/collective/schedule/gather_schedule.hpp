#pragma once

#include "troupe/strategies/collective/schedule/schedule.hpp"

namespace troupe::collective {

/// Schedule of a gather: each process sends the tensors of its replicas to all
/// other processes, one after the other. Piece 0 of a tensor is its spec; the
/// other pieces are its elements, `max_packet_bytes` each.
class gather_schedule final : public schedule {
public:
  /// @param placed must outlive the schedule.
  explicit gather_schedule(const local_placement& placed)
    : placement_{placed} {}

  void prepare(operation& op) const override;
  bool find(const operation& op, cursor& position,
            const queue_id& queue) const override;
  void label(packet_header& header, const operation& op, const cursor& position,
             const queue_id& queue) const override;
  std::optional<payload>
  payload_of(const operation& op, const cursor& position,
             const packet_header& header, const queue_id& queue,
             const queue_positions& positions) const override;
  destination destination_of(operation& op, const cursor& position,
                             const packet_header& header, const queue_id& queue,
                             const queue_positions& positions) const override;
  /// @pre the tensor of `position` exists in `op.gathered`.
  bool advance(const operation& op, cursor& position,
               const queue_id& queue) const override;
  std::vector<std::uint32_t>
  silent_processes(const operation& op, std::uint64_t number,
                   const queue_positions& positions) const override;

private:
  const local_placement& placement_;
};

} // namespace troupe::collective
