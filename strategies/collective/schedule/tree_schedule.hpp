#pragma once

#include "troupe/strategies/collective/schedule/schedule.hpp"

namespace troupe::collective {

/// Schedule of a sum by tree. Process (k + c) mod P adds chunk c of the k-th
/// collective of a step. Every other process sends it one contribution for each
/// subtree of the canonical tree that the sender hosts, and receives the
/// result. An all-to-all bucket has one chunk, which every process adds, and no
/// results.
class tree_schedule final : public schedule {
public:
  /// @param placed must outlive the schedule.
  explicit tree_schedule(const local_placement& placed);

  /// Returns true if process `reducer` adds a j-th chunk of the operation.
  bool has_chunk(const operation& op, std::uint32_t reducer,
                 std::uint32_t j) const {
    return chunk_at(op, reducer, j) < op.chunks.count;
  }
  /// Returns the index of the j-th chunk that `reducer` adds.
  std::uint32_t chunk_at(const operation& op, std::uint32_t reducer,
                         std::uint32_t j) const;

  void prepare(operation& op) const override;
  bool find(const operation& op, cursor& position,
            const queue_id& queue) const override;
  void label(packet_header& header, const operation& op, const cursor& position,
             const queue_id& queue) const override;
  /// A contribution is always available; a result is when its chunk was added.
  std::optional<payload>
  payload_of(const operation& op, const cursor& position,
             const packet_header& header, const queue_id& queue,
             const queue_positions& positions) const override;
  destination destination_of(operation& op, const cursor& position,
                             const packet_header& header, const queue_id& queue,
                             const queue_positions& positions) const override;
  bool advance(const operation& op, cursor& position,
               const queue_id& queue) const override;
  std::vector<std::uint32_t>
  silent_processes(const operation& op, std::uint64_t number,
                   const queue_positions& positions) const override;

private:
  const local_placement& placement_;
  /// By process: the result of `subtrees_of`.
  std::vector<std::vector<replica_range>> subtrees_;
};

} // namespace troupe::collective
