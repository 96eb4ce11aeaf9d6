#include "troupe/strategies/collective/schedule/packet_order.hpp"

namespace troupe::collective {

packet_order::packet_order(const local_placement& placed,
                           const operation_log& log)
  : placement_{placed},
    log_{log},
    tree_{placed},
    ring_{placed},
    gather_{placed} {}

const schedule& packet_order::schedule_of(const operation& op) const {
  if (op.is_gather())
    return gather_;
  if (op.options.algorithm == collective_options::algorithm_kind::ring
      && placement_.job.processes() > 1)
    return ring_;
  return tree_;
}

bool packet_order::find(cursor& position, const queue_id& queue) const {
  for (; position.operation_number < log_.started();
       position = {position.operation_number + 1, 0, 0}) {
    const auto& op = log_[position.operation_number];
    if (schedule_of(op).find(op, position, queue))
      return true;
  }
  return false;
}

bool packet_order::find_chunk_to_add(cursor& position) const {
  for (; position.operation_number < log_.started();
       position = {position.operation_number + 1, 0, 0}) {
    const auto& op = log_[position.operation_number];
    if (uses_tree(op) && tree_.has_chunk(op, placement_.process, position.j))
      return true;
  }
  return false;
}

std::uint32_t packet_order::chunk_to_add(const cursor& position) const {
  return tree_.chunk_at(log_[position.operation_number], placement_.process,
                        position.j);
}

packet_header packet_order::header_of(const cursor& position,
                                      const queue_id& queue) const {
  const auto& op = log_[position.operation_number];
  packet_header out;
  out.generation = log_.generation();
  out.step = op.step;
  out.sequence = op.sequence;
  out.bucket = op.bucket;
  static_assert(max_replicas <= std::size_t{1} << 16); // each sender has one
  out.sender = static_cast<std::uint16_t>(queue.sender);
  out.kind = queue.lane == lane_id::results ? packet_kind::result : op.kind;
  if (!op.is_gather()) {
    out.elements = op.spec.dims.elements();
    out.type = op.spec.type;
  }
  out.algorithm = op.options.algorithm;
  out.timeout = op.options.timeout;
  out.bytes_per_pack = op.options.bytes_per_pack;
  out.tensors = op.options.tensors;
  schedule_of(op).label(out, op, position, queue);
  return out;
}

} // namespace troupe::collective
