#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>

// Ring algorithm: the order of chunks, forwarding, and the processes to report
// as missing.

namespace troupe::collective {

/// Returns true if the operation is a sum by ring between several processes.
/// With one process the ring and the tree are equal, so the tree is used.
bool state_machine::uses_ring(const operation& op) const {
  return op.options.algorithm == collective_options::algorithm_kind::ring
         && op.kind != packet_kind::gather_contribution && processes() > 1;
}

std::uint32_t state_machine::chunk_at(const cursor& position, packet_kind kind,
                                      std::uint32_t sender) const {
  const auto schedule = ring_of(operation_at(position.operation_number));
  return kind == packet_kind::result
           ? schedule.result_at(position.j, position.i, sender)
           : schedule.contribution_at(position.j, position.i, sender);
}

/// Moves `position` to the next hop whose chunk exists; the last group of an
/// operation may have fewer than P chunks.
/// @returns false if this operation has no hop left, or if `receiver` is not
///          the next process after `sender`.
bool state_machine::next_hop(cursor& position, packet_kind kind,
                             std::uint32_t sender,
                             std::uint32_t receiver) const {
  const auto& r = operation_at(position.operation_number);
  const auto schedule = ring_of(r);
  if (receiver != schedule.next(sender))
    return false;
  for (; position.j * schedule.processes < r.chunks.count;
       position = {position.operation_number, position.j + 1, 0})
    for (; position.i < schedule.hops(); ++position.i)
      if (chunk_at(position, kind, sender) < r.chunks.count)
        return true;
  return false;
}

// -- sending ------------------------------------------------------------------

bool state_machine::forward_contribution(packet_transport& transport,
                                         std::uint32_t peer,
                                         const packet_header& header) {
  auto& next = peers_[peer].contributions_out;
  const auto& op = operation_at(next.operation_number);
  const bool begins = next.i == 0;
  if (!begins
      && peers_[previous_process()].contributions.next
           <= cursor{next.operation_number, next.j, next.i - 1})
    return false;
  if (begins && local_count() > 1) {
    const auto buffer = transport.reserve(peer, lane_id::contributions);
    if (buffer.empty())
      return false;
    const auto bytes = bytes_of(op, op.output, header.chunk).size();
    fold_inputs(op, op.inputs, header.chunk, buffer.first(bytes));
    transport.send(peer, lane_id::contributions, write(header), bytes);
  } else if (!transport.send(
               peer, lane_id::contributions, write(header),
               bytes_of(op, begins ? op.inputs[0] : op.output, header.chunk))) {
    return false;
  }
  ++next.i;
  return true;
}

/// True if the result at `position` is available: this process has computed it,
/// or has received it from the previous process.
bool state_machine::can_send_result(const cursor& position) const {
  const auto& in = peers_[previous_process()];
  return position.i == 0
           ? in.contributions.next
               > cursor{position.operation_number, position.j,
                        ring_of(operation_at(position.operation_number)).hops()
                          - 1}
           : in.results.next
               > cursor{position.operation_number, position.j, position.i - 1};
}

// -- receiving ----------------------------------------------------------------

/// Adds the local contribution to the received one, and writes the sum to the
/// memory of the result. The packet can therefore be popped immediately, even
/// if the queue to the next process is full.
bool state_machine::receive_ring_contribution(packet_transport& transport,
                                              std::uint32_t peer,
                                              const packet_header& expected) {
  auto& next = peers_[peer].contributions.next;
  auto& op = operation_at(next.operation_number);
  const auto into = bytes_of(op, op.output, expected.chunk);
  if (!has_size(transport, peer, lane_id::contributions, into.size()))
    return false;
  std::span<const std::byte> theirs =
    transport.view(peer, lane_id::contributions);
  if (theirs.empty()) {
    if (!read_into(transport, peer, lane_id::contributions, into, op.output))
      return false;
    theirs = into;
  }
  if (!is_aligned(peer, theirs.data(), op.spec.type))
    return false;
  add_local(op, expected.chunk, theirs, into);
  pop(transport, peer, lane_id::contributions);
  if (++next.i == ring_of(op).hops())
    complete_one(op);
  return true;
}

/// Sets `into` to the received payload `theirs` plus the sum over the local
/// replicas.
void state_machine::add_local(const operation& op, std::uint32_t chunk,
                              std::span<const std::byte> theirs,
                              std::span<std::byte> into) {
  const auto begin = op.chunks.chunk_elements * chunk * size_of(op.spec.type);
  const flush_denormals flushing;
  const auto run = [&]<class T>(T) {
    const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
      return b - a == 1 ? reinterpret_cast<const T*>(op.inputs[a].raw() + begin)
                        : nullptr;
    };
    const auto* left = reinterpret_cast<const T*>(theirs.data());
    auto* out = reinterpret_cast<T*>(into.data());
    const auto all = into.size() / sizeof(T);
    alignas(64) T sum[tree::block];
    for (std::size_t at = 0; at < all; at += tree::block) {
      const auto n = std::min(tree::block, all - at);
      const auto* own = tree::fold(0, local_count(), at, n, sum, leaf);
      tree::add(out + at, left + at, own, n);
    }
  };
  if (op.spec.type == dtype::float32)
    run(float{});
  else
    run(double{});
}

/// True if this process has sent its contribution to a chunk; `sum` gives the
/// operation and the group of the chunk. A result of the chunk that arrives
/// earlier is a protocol error. The last process of a chunk sends no
/// contribution, but receives no result either.
bool state_machine::contribution_was_sent(const cursor& sum,
                                          std::uint32_t chunk) const {
  const auto schedule = ring_of(operation_at(sum.operation_number));
  return peers_[schedule.next(rank())].contributions_out
         > cursor{sum.operation_number, sum.j, schedule.hop_of(chunk, rank())};
}

// -- who is missing -----------------------------------------------------------

/// Returns the processes that are missing in the operation. A process is
/// missing if the next expected packet needs its contribution, but no sum that
/// has arrived includes a contribution of that process. If no process is
/// missing, returns the previous process.
std::vector<std::uint32_t>
state_machine::silent_ring_peers(const operation& op) const {
  const auto schedule = ring_of(op);
  const auto previous = previous_process();
  // position of the packet that this process expects from the previous process
  auto expected = peers_[previous].contributions.next;
  const bool is_contribution = next_contribution(expected, previous, rank())
                               && expected.operation_number == complete_;
  // A contribution that arrives in hop i is a sum over i + 1 processes: the
  // previous process and the i processes before it. `begun` is the number of
  // processes in the longest of these sums that has arrived. The loop searches
  // group 0 only, because group 0 arrives before all other groups.
  std::uint32_t begun = 0;
  for (cursor at{complete_, 0, 0}; at.i < schedule.hops(); ++at.i)
    if (at < peers_[previous].contributions.next
        && chunk_at(at, packet_kind::contribution, previous) < op.chunks.count)
      begun = at.i + 1;
  const auto most =
    is_contribution && expected.j == 0 ? expected.i + 1 : schedule.hops();
  std::vector<std::uint32_t> out;
  for (auto hops = begun; hops < most; ++hops)
    out.push_back(schedule.previous(previous, hops));
  if (out.empty())
    out.push_back(previous);
  std::ranges::sort(out);
  return out;
}

} // namespace troupe::collective
