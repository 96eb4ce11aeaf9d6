#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>

namespace troupe::collective {

/// Adds one chunk of some local contributions in tree order.
void state_machine::fold_inputs(const operation& op,
                                std::span<const tensor> inputs,
                                std::uint32_t chunk,
                                std::span<std::byte> into) {
  const auto begin = op.chunks.chunk_elements * chunk * size_of(op.spec.type);
  const flush_denormals flushing;
  const auto run = [&]<class T>(T) {
    const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
      return b - a == 1 ? reinterpret_cast<const T*>(inputs[a].raw() + begin)
                        : nullptr;
    };
    tree::fold_all(0, inputs.size(), 0, into.size() / sizeof(T),
                   reinterpret_cast<T*>(into.data()), leaf);
  };
  if (op.spec.type == dtype::float32)
    run(float{});
  else
    run(double{});
}

bool state_machine::send_contribution(packet_transport& transport,
                                      std::uint32_t peer) {
  auto& next = peers_[peer].contributions_out;
  if (!next_contribution(next, rank(), peer))
    return false;
  auto& op = operation_at(next.operation_number);
  const auto header = contribution_header(next, rank(), peer);
  if (op.kind == packet_kind::gather_contribution)
    return send_gather_piece(transport, peer, header);
  if (uses_ring(op))
    return forward_contribution(transport, peer, header);
  const auto bytes = bytes_of(op, input_of(op, header.begin), header.chunk);
  if (header.end - header.begin == 1) {
    // The sum of an `all_to_all` bucket can be complete here before the peers
    // have read the contribution. The caller may then change the contribution,
    // so it is copied.
    const auto header_bytes = write(header);
    if (!(op.chunks.all_to_all
            ? transport.send(peer, lane_id::contributions, header_bytes, bytes)
            : transport.send_zero_copy(peer, lane_id::contributions,
                                       header_bytes, bytes)))
      return false;
    zero_copy_pending_ |= !op.chunks.all_to_all;
  } else {
    const auto buffer = transport.reserve(peer, lane_id::contributions);
    if (buffer.empty())
      return false;
    const std::span contributions{op.inputs};
    fold_inputs(op,
                contributions.subspan(placement_.job.index_of(header.begin),
                                      header.end - header.begin),
                header.chunk, buffer.first(bytes.size()));
    transport.send(peer, lane_id::contributions, write(header), bytes.size());
  }
  if (++next.i == subtrees_[rank()].size() && op.chunks.all_to_all)
    complete_one(op);
  return true;
}

bool state_machine::send_gather_piece(packet_transport& transport,
                                      std::uint32_t peer,
                                      const packet_header& header) {
  auto& next = peers_[peer].contributions_out;
  const auto& input =
    input_of(operation_at(next.operation_number), header.begin);
  const auto done =
    next.i == 0 ? 0 : std::size_t{next.i - 1} * max_packet_bytes;
  const auto size = std::min(max_packet_bytes, input.bytes() - done);
  const auto spec = write(input.spec());
  if (!transport.send(peer, lane_id::contributions, write(header),
                      next.i == 0
                        ? std::span<const std::byte>{spec}
                        : std::span<const std::byte>{input.raw() + done, size}))
    return false;
  const bool last =
    next.i == 0 ? input.bytes() == 0 : done + size == input.bytes();
  next = last ? cursor{next.operation_number, next.j + 1, 0}
              : cursor{next.operation_number, next.j, next.i + 1};
  return true;
}

bool state_machine::send_result(packet_transport& transport,
                                std::uint32_t peer) {
  auto& next = peers_[peer].results_out;
  if (!next_result(next, rank(), peer))
    return false;
  const auto& op = operation_at(next.operation_number);
  if (uses_ring(op)
        ? !can_send_result(next)
        : next >= cursor{next_to_add_.operation_number, next_to_add_.j})
    return false;
  const auto header = result_header(next, rank());
  const auto header_bytes = write(header);
  const auto bytes = bytes_of(op, op.output, header.chunk);
  if (!(uses_ring(op)
          ? transport.send(peer, lane_id::results, header_bytes, bytes)
          : transport.send_zero_copy(peer, lane_id::results, header_bytes,
                                     bytes)))
    return false;
  zero_copy_pending_ |= !uses_ring(op);
  ++(uses_ring(op) ? next.i : next.j);
  return true;
}

bool state_machine::progress(packet_transport& transport) {
  if (aborted_ || error_ || generation_ == 0)
    return false;
  bool moved = false;
  for (std::uint32_t i = 1; i < processes(); ++i) {
    const auto p = (rank() + i) % processes();
    moved |= receive_result(transport, p);
    moved |= receive_contribution(transport, p);
  }
  moved |= add_chunk(transport);
  for (std::uint32_t i = 1; i < processes(); ++i) {
    const auto p = (rank() + i) % processes();
    moved |= send_result(transport, p);
    moved |= send_contribution(transport, p);
  }
  return moved && !error_;
}

} // namespace troupe::collective
