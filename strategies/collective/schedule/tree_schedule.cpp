#include "troupe/strategies/collective/schedule/tree_schedule.hpp"

namespace troupe::collective {

tree_schedule::tree_schedule(const local_placement& placed)
  : placement_{placed} {
  for (std::uint32_t p = 0; p < placed.job.processes(); ++p)
    subtrees_.push_back(subtrees_of(placed.job, p));
}

std::uint32_t tree_schedule::chunk_at(const operation& op,
                                      std::uint32_t reducer,
                                      std::uint32_t j) const {
  const auto processes = placement_.job.processes();
  return op.chunks.all_to_all
           ? j
           : (reducer + processes - op.sequence % processes) % processes
               + j * processes;
}

void tree_schedule::prepare(operation& op) const {
  const auto processes = placement_.job.processes();
  op.chunks = chunking_of(op.spec.dims.elements(), op.spec.type, processes,
                          op.options.algorithm);
  // A caller may change its contribution once it has the sum. An all-to-all
  // operation is therefore complete only when its packets have been sent.
  op.remaining = op.chunks.count + (op.chunks.all_to_all ? processes - 1 : 0);
  const bool in_place = op.result_placement == output_placement::in_place
                        && placement_.count() == 1 && !op.chunks.all_to_all;
  op.output = in_place ? op.inputs[0] : tensor{op.spec};
}

bool tree_schedule::find(const operation& op, cursor& position,
                         const queue_id& queue) const {
  if (queue.lane == lane_id::results)
    return !op.chunks.all_to_all && has_chunk(op, queue.sender, position.j);
  if (position.i == subtrees_[queue.sender].size())
    position = {position.operation_number, position.j + 1, 0};
  return has_chunk(op, queue.receiver, position.j);
}

void tree_schedule::label(packet_header& header, const operation& op,
                          const cursor& position, const queue_id& queue) const {
  if (queue.lane == lane_id::results) {
    header.begin = 0;
    header.end = placement_.job.replicas();
    header.chunk = chunk_at(op, queue.sender, position.j);
  } else {
    header.begin = subtrees_[queue.sender][position.i].begin;
    header.end = subtrees_[queue.sender][position.i].end;
    header.chunk = chunk_at(op, queue.receiver, position.j);
  }
}

std::optional<payload>
tree_schedule::payload_of(const operation& op, const cursor& position,
                          const packet_header& header, const queue_id& queue,
                          const queue_positions& positions) const {
  if (queue.lane == lane_id::results) {
    if (position >= positions.next_to_add)
      return std::nullopt;
    return payload{payload::kind::zero_copy,
                   op.chunk_of(op.output, header.chunk)};
  }
  const auto inputs = std::span{op.inputs}.subspan(
    placement_.job.index_of(header.begin), header.end - header.begin);
  if (inputs.size() > 1)
    return payload{payload::kind::sum, {}, inputs};
  // The sum of an all-to-all bucket can be complete here before the peers have
  // read the contribution. The caller may then change the contribution, so it
  // is copied.
  return payload{op.chunks.all_to_all ? payload::kind::copy
                                      : payload::kind::zero_copy,
                 op.chunk_of(inputs[0], header.chunk)};
}

destination tree_schedule::destination_of(
  operation& op, const cursor& position, const packet_header& header,
  const queue_id& queue, const queue_positions& /*positions*/) const {
  const auto chunk = op.chunk_of(op.output, header.chunk);
  if (queue.lane == lane_id::results)
    return {destination::kind::store, chunk.size(), chunk.data(), &op.output};
  return {.how = destination::kind::collect,
          .bytes = chunk.size(),
          .completes_chunk = position.i + 1 == subtrees_[queue.sender].size()};
}

bool tree_schedule::advance(const operation& op, cursor& position,
                            const queue_id& queue) const {
  const bool is_sent = queue.sender == placement_.process;
  if (queue.lane == lane_id::results) {
    ++position.j;
    return !is_sent;
  }
  const bool all_sent = ++position.i == subtrees_[queue.sender].size();
  return is_sent && all_sent && op.chunks.all_to_all;
}

std::vector<std::uint32_t>
tree_schedule::silent_processes(const operation& /*op*/, std::uint64_t number,
                                const queue_positions& positions) const {
  return late_peers(number, placement_.job.processes(), placement_.process,
                    positions);
}

} // namespace troupe::collective
