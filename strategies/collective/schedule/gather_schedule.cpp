#include "troupe/strategies/collective/schedule/gather_schedule.hpp"

namespace troupe::collective {

namespace {

/// Returns the elements of a piece. @pre `piece > 0`.
std::span<std::byte> piece_of(const tensor& gathered, std::uint32_t piece) {
  const auto done = std::size_t{piece - 1} * max_packet_bytes;
  return {gathered.raw() + done,
          std::min(max_packet_bytes, gathered.bytes() - done)};
}

} // namespace

void gather_schedule::prepare(operation& op) const {
  op.remaining = placement_.job.replicas() - placement_.count();
}

bool gather_schedule::find(const operation& /*op*/, cursor& position,
                           const queue_id& queue) const {
  return queue.lane == lane_id::contributions
         && position.j < placement_.job.replicas_of(queue.sender).size();
}

void gather_schedule::label(packet_header& header, const operation& /*op*/,
                            const cursor& position,
                            const queue_id& queue) const {
  header.begin = placement_.job.replicas_of(queue.sender)[position.j];
  header.end = header.begin + 1;
  header.chunk = position.i;
}

std::optional<payload> gather_schedule::payload_of(
  const operation& op, const cursor& position, const packet_header& header,
  const queue_id& /*queue*/, const queue_positions& /*positions*/) const {
  const auto& input = op.gathered[header.begin];
  if (position.i == 0)
    return payload{payload::kind::spec, {}, std::span{&input, 1}};
  return payload{payload::kind::copy, piece_of(input, position.i)};
}

destination gather_schedule::destination_of(
  operation& op, const cursor& position, const packet_header& header,
  const queue_id& /*queue*/, const queue_positions& /*positions*/) const {
  auto& target = op.gathered[header.begin];
  if (position.i == 0)
    return {.how = destination::kind::spec,
            .bytes = sizeof(gather_spec),
            .target = &target};
  const auto piece = piece_of(target, position.i);
  return {destination::kind::store, piece.size(), piece.data(), &target};
}

bool gather_schedule::advance(const operation& op, cursor& position,
                              const queue_id& queue) const {
  const auto replica = placement_.job.replicas_of(queue.sender)[position.j];
  const bool is_last =
    std::size_t{position.i} * max_packet_bytes >= op.gathered[replica].bytes();
  position = is_last
               ? cursor{position.operation_number, position.j + 1, 0}
               : cursor{position.operation_number, position.j, position.i + 1};
  return is_last && queue.sender != placement_.process;
}

std::vector<std::uint32_t>
gather_schedule::silent_processes(const operation& /*op*/, std::uint64_t number,
                                  const queue_positions& positions) const {
  return late_peers(number, placement_.job.processes(), placement_.process,
                    positions);
}

} // namespace troupe::collective
