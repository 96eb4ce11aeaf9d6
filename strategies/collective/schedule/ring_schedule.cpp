#include "troupe/strategies/collective/schedule/ring_schedule.hpp"

#include <algorithm>

namespace troupe::collective {

std::uint32_t ring_schedule::chunk_at(const operation& op,
                                      const cursor& position, lane_id lane,
                                      std::uint32_t sender) const {
  const auto r = ring_of(op);
  return lane == lane_id::results
           ? r.result_at(position.j, position.i, sender)
           : r.contribution_at(position.j, position.i, sender);
}

void ring_schedule::prepare(operation& op) const {
  op.chunks = chunking_of(op.spec.dims.elements(), op.spec.type,
                          placement_.job.processes(), op.options.algorithm);
  op.remaining = op.chunks.count;
  op.output = tensor{op.spec};
}

bool ring_schedule::find(const operation& op, cursor& position,
                         const queue_id& queue) const {
  const auto r = ring_of(op);
  if (queue.receiver != r.next(queue.sender))
    return false;
  for (; position.j * r.processes < op.chunks.count;
       position = {position.operation_number, position.j + 1, 0})
    for (; position.i < r.hops(); ++position.i)
      if (chunk_at(op, position, queue.lane, queue.sender) < op.chunks.count)
        return true;
  return false;
}

void ring_schedule::label(packet_header& header, const operation& op,
                          const cursor& position, const queue_id& queue) const {
  const auto& job = placement_.job;
  header.chunk = chunk_at(op, position, queue.lane, queue.sender);
  if (queue.lane == lane_id::results) {
    header.begin = 0;
    header.end = job.replicas();
  } else {
    header.begin = job.replicas_of(ring_of(op).first_of(header.chunk)).front();
    header.end = job.replicas_of(queue.sender).back() + 1;
  }
}

// -- sending ------------------------------------------------------------------

std::optional<payload>
ring_schedule::payload_of(const operation& op, const cursor& position,
                          const packet_header& header, const queue_id& queue,
                          const queue_positions& positions) const {
  const payload stored{payload::kind::copy,
                       op.chunk_of(op.output, header.chunk)};
  if (queue.lane == lane_id::results)
    return is_result_available(op, position, positions) ? std::optional{stored}
                                                        : std::nullopt;
  if (position.i == 0) // this process is the first to send the chunk
    return op.inputs.size() > 1
             ? payload{payload::kind::sum, {}, op.inputs}
             : payload{payload::kind::copy,
                       op.chunk_of(op.inputs[0], header.chunk)};
  const auto previous = ring_of(op).previous(placement_.process);
  const cursor last_hop{position.operation_number, position.j, position.i - 1};
  return positions.received(previous, lane_id::contributions) > last_hop
           ? std::optional{stored}
           : std::nullopt;
}

/// True if this process has computed the result at `position`, or has received
/// it from the previous process.
bool ring_schedule::is_result_available(
  const operation& op, const cursor& position,
  const queue_positions& positions) const {
  const auto r = ring_of(op);
  const auto previous = r.previous(placement_.process);
  return position.i == 0
           ? positions.received(previous, lane_id::contributions)
               > cursor{position.operation_number, position.j, r.hops() - 1}
           : positions.received(previous, lane_id::results)
               > cursor{position.operation_number, position.j, position.i - 1};
}

// -- receiving ----------------------------------------------------------------

destination ring_schedule::destination_of(
  operation& op, const cursor& position, const packet_header& header,
  const queue_id& queue, const queue_positions& positions) const {
  const auto chunk = op.chunk_of(op.output, header.chunk);
  if (queue.lane == lane_id::contributions)
    return {destination::kind::add, chunk.size(), chunk.data(), &op.output};
  // An early result would overwrite a contribution that was not forwarded yet.
  if (!contribution_was_sent(op, position, header.chunk, positions))
    return {.how = destination::kind::too_early};
  return {destination::kind::store, chunk.size(), chunk.data(), &op.output};
}

/// True if this process has sent its contribution to a chunk; `position` gives
/// the operation and the group of the chunk. The last process of a chunk sends
/// no contribution, but receives no result either.
bool ring_schedule::contribution_was_sent(
  const operation& op, const cursor& position, std::uint32_t chunk,
  const queue_positions& positions) const {
  const auto r = ring_of(op);
  const auto rank = placement_.process;
  return positions.sent(r.next(rank), lane_id::contributions)
         > cursor{position.operation_number, position.j, r.hop_of(chunk, rank)};
}

bool ring_schedule::advance(const operation& op, cursor& position,
                            const queue_id& queue) const {
  ++position.i;
  if (queue.sender == placement_.process)
    return false;
  return queue.lane == lane_id::results || position.i == ring_of(op).hops();
}

// -- who is missing -----------------------------------------------------------

std::vector<std::uint32_t>
ring_schedule::silent_processes(const operation& op, std::uint64_t number,
                                const queue_positions& positions) const {
  const auto r = ring_of(op);
  const auto rank = placement_.process;
  const auto previous = r.previous(rank);
  const auto& received = positions.received(previous, lane_id::contributions);
  // position of the packet that this process expects from the previous process
  auto expected = std::max(received, cursor{number, 0, 0});
  const bool is_contribution =
    expected.operation_number == number
    && find(op, expected, {lane_id::contributions, previous, rank});
  // A contribution that arrives in hop i is a sum over i + 1 processes: the
  // previous process and the i processes before it. `begun` is the number of
  // processes in the longest of these sums that has arrived. The loop searches
  // group 0 only, because group 0 arrives before all other groups.
  std::uint32_t begun = 0;
  for (cursor at{number, 0, 0}; at.i < r.hops(); ++at.i)
    if (at < received
        && chunk_at(op, at, lane_id::contributions, previous) < op.chunks.count)
      begun = at.i + 1;
  const auto most =
    is_contribution && expected.j == 0 ? expected.i + 1 : r.hops();
  std::vector<std::uint32_t> out;
  for (auto hops = begun; hops < most; ++hops)
    out.push_back(r.previous(previous, hops));
  if (out.empty())
    out.push_back(previous);
  std::ranges::sort(out);
  return out;
}

} // namespace troupe::collective
