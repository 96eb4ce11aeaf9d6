#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace troupe::collective {

void state_machine::set_error(std::uint32_t process, std::string reason) {
  if (!error_)
    error_ = protocol_error{process, std::move(reason)};
}

/// Compares the front packet of a queue with the expected header. Null
/// `expected`: no packet is expected yet.
state_machine::packet_match
state_machine::classify(packet_transport& transport, std::uint32_t peer,
                        lane_id lane, const packet_header* expected) {
  const auto* front = transport.front(peer, lane);
  if (!front)
    return packet_match::early;
  const auto received = read(*front);
  if (received.generation > generation_)
    return packet_match::early;
  if (received.generation < generation_
      || received == receive_state_of(peer, lane).last)
    return packet_match::stale;
  if (!expected)
    return packet_match::early;
  if (received == *expected)
    return packet_match::expected;
  if (std::tie(received.step, received.sequence)
      < std::tie(expected->step, expected->sequence))
    return packet_match::stale;
  set_error(peer, describe_mismatch(received, *expected));
  return packet_match::mismatch;
}

bool state_machine::has_size(packet_transport& transport, std::uint32_t peer,
                             lane_id lane, std::size_t bytes) {
  const auto actual = transport.front_bytes(peer, lane);
  if (actual != bytes)
    set_error(peer, "process " + std::to_string(peer) + " sent "
                      + std::to_string(actual) + " bytes where "
                      + std::to_string(bytes) + " were expected");
  return actual == bytes;
}

/// Returns true if a peer's payload is aligned for its element type. Otherwise
/// sets a protocol error and returns false.
bool state_machine::is_aligned(std::uint32_t peer, const std::byte* at,
                               dtype type) {
  const bool it_is = reinterpret_cast<std::uintptr_t>(at) % size_of(type) == 0;
  if (!it_is)
    set_error(peer, "process " + std::to_string(peer) + " sent "
                      + std::string{to_string(type)}
                      + " at an address that is not aligned");
  return it_is;
}

bool state_machine::read_into(packet_transport& transport, std::uint32_t peer,
                              lane_id lane, std::span<std::byte> into,
                              const tensor& keep) {
  auto& state = receive_state_of(peer, lane);
  if (state.received)
    return true;
  state.destination = into;
  state.destination_owner = keep;
  return state.received = transport.read_into(peer, lane, into);
}

void state_machine::pop(packet_transport& transport, std::uint32_t peer,
                        lane_id lane) {
  auto& state = receive_state_of(peer, lane);
  state.last = read(*transport.front(peer, lane));
  transport.pop(peer, lane);
  state.destination = {};
  state.destination_owner = {};
  state.received = state.chunk_arrived = false;
}

/// Discards a stale front packet. Returns false while its payload is still
/// arriving.
bool state_machine::discard(packet_transport& transport, std::uint32_t peer,
                            lane_id lane) {
  auto& state = receive_state_of(peer, lane);
  if (!state.received && transport.view(peer, lane).empty()) {
    if (state.destination.empty())
      discard_rest(state, transport.front_bytes(peer, lane));
    if (!read_into(transport, peer, lane, state.destination,
                   tensor{state.destination_owner}))
      return false;
  }
  pop(transport, peer, lane);
  return true;
}

bool state_machine::receive_result(packet_transport& transport,
                                   std::uint32_t peer) {
  auto& next = peers_[peer].results.next;
  const bool open = next_result(next, peer, rank());
  const auto expected = open ? result_header(next, peer) : packet_header{};
  const auto match =
    classify(transport, peer, lane_id::results, open ? &expected : nullptr);
  if (match == packet_match::stale)
    return discard(transport, peer, lane_id::results);
  if (match != packet_match::expected)
    return false;
  auto& op = operation_at(next.operation_number);
  if (uses_ring(op) && !contribution_was_sent(next, expected.chunk)) {
    set_error(peer, "process " + std::to_string(peer) + " sent "
                      + describe(expected)
                      + " before this process had added its contribution");
    return false;
  }
  const auto into = bytes_of(op, op.output, expected.chunk);
  if (!has_size(transport, peer, lane_id::results, into.size())
      || !read_into(transport, peer, lane_id::results, into, op.output))
    return false;
  pop(transport, peer, lane_id::results);
  ++(uses_ring(op) ? next.i : next.j);
  complete_one(op);
  return true;
}

bool state_machine::receive_contribution(packet_transport& transport,
                                         std::uint32_t peer) {
  auto& state = peers_[peer].contributions;
  if (state.chunk_arrived)
    return false; // other peers' packets of this chunk are still missing
  const bool open = next_contribution(state.next, peer, rank());
  const auto expected =
    open ? contribution_header(state.next, peer, rank()) : packet_header{};
  const auto match = classify(transport, peer, lane_id::contributions,
                              open ? &expected : nullptr);
  if (match == packet_match::stale)
    return discard(transport, peer, lane_id::contributions);
  if (match != packet_match::expected)
    return false;
  const auto& op = operation_at(state.next.operation_number);
  if (op.kind == packet_kind::gather_contribution)
    return receive_gather_piece(transport, peer, expected);
  if (uses_ring(op))
    return receive_ring_contribution(transport, peer, expected);
  const auto bytes = bytes_of(op, op.output, expected.chunk).size();
  if (!has_size(transport, peer, lane_id::contributions, bytes))
    return false;
  const bool last = state.next.i + 1 == subtrees_[peer].size();
  auto view = last ? transport.view(peer, lane_id::contributions)
                   : std::span<const std::byte>{};
  if (view.empty()) {
    auto& kept = scratch_[expected.begin];
    if (!kept)
      kept = tensor{shape{std::int64_t(max_packet_bytes)}, dtype::uint8};
    const std::span into{kept.raw(), bytes};
    if (!read_into(transport, peer, lane_id::contributions, into, kept))
      return false;
    view = into;
  }
  if (!is_aligned(peer, view.data(), op.spec.type))
    return false;
  leaves_[expected.begin] = view.data();
  if (last) {
    state.chunk_arrived = true;
  } else {
    pop(transport, peer, lane_id::contributions);
    ++state.next.i;
  }
  return true;
}

bool state_machine::receive_gather_piece(packet_transport& transport,
                                         std::uint32_t peer,
                                         const packet_header& expected) {
  auto& state = peers_[peer].contributions;
  auto& op = operation_at(state.next.operation_number);
  auto& target = op.gathered[expected.begin];
  if (expected.chunk == 0) {
    if (!has_size(transport, peer, lane_id::contributions, state.spec.size())
        || !read_into(transport, peer, lane_id::contributions, state.spec, {}))
      return false;
    tensor_spec spec;
    if (!read(state.spec, spec)) {
      set_error(peer, "process " + std::to_string(peer)
                        + " sent a contribution to gather "
                        + std::to_string(expected.bucket)
                        + " whose tensor spec is invalid or too large");
      return false;
    }
    target = tensor{spec};
  } else {
    const auto done = std::size_t{expected.chunk - 1} * max_packet_bytes;
    const auto size = std::min(max_packet_bytes, target.bytes() - done);
    if (!has_size(transport, peer, lane_id::contributions, size)
        || !read_into(transport, peer, lane_id::contributions,
                      {target.raw() + done, size}, target))
      return false;
  }
  pop(transport, peer, lane_id::contributions);
  ++state.next.i;
  if (std::size_t{expected.chunk} * max_packet_bytes >= target.bytes()) {
    state.next = {state.next.operation_number, state.next.j + 1, 0};
    complete_one(op);
  }
  return true;
}

/// Computes the sum of a chunk from all contributions to it. @pre all
/// contributions have arrived.
void state_machine::fold(operation& op, std::uint32_t chunk) {
  const auto into = bytes_of(op, op.output, chunk);
  const auto offset = into.data() - op.output.raw();
  const bool in_place = op.output.raw() == op.inputs[0].raw();
  const flush_denormals flushing;
  const auto run = [&]<class T>(T) {
    const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
      if (b > range_end_[a])
        return nullptr;
      const auto replica = std::uint32_t(a);
      if (placement_.job.process_of(replica) != rank())
        return reinterpret_cast<const T*>(leaves_[a]);
      return b - a == 1 ? reinterpret_cast<const T*>(input_of(op, replica).raw()
                                                     + offset)
                        : nullptr;
    };
    auto* out = reinterpret_cast<T*>(into.data());
    const auto elements = into.size() / sizeof(T);
    // `fold_all` may write partial sums to `out`, so `out` must not hold a
    // contribution. With two replicas there are no partial sums: `fold_all`
    // reads each element of `out` before it writes the sum to that element.
    if (!in_place || replicas() == 2)
      return tree::fold_all(0, replicas(), 0, elements, out, leaf);
    alignas(64) T sum[tree::block];
    for (std::size_t at = 0; at < elements; at += tree::block) {
      const auto n = std::min(tree::block, elements - at);
      const auto* stands = tree::fold(0, replicas(), at, n, sum, leaf);
      if (stands != out + at)
        std::memcpy(out + at, stands, n * sizeof(T));
    }
  };
  if (op.spec.type == dtype::float32)
    run(float{});
  else
    run(double{});
}

/// Computes the sum of the next chunk that this process has to add, if all
/// contributions to that chunk have arrived.
bool state_machine::add_chunk(packet_transport& transport) {
  if (!next_chunk_to_add(next_to_add_))
    return false;
  for (std::uint32_t p = 0; p < processes(); ++p) {
    const auto& arrived = peers_[p].contributions;
    if (p != rank()
        && (!arrived.chunk_arrived
            || arrived.next.operation_number != next_to_add_.operation_number
            || arrived.next.j != next_to_add_.j))
      return false;
  }
  auto& op = operation_at(next_to_add_.operation_number);
  fold(op, chunk_of(op, rank(), next_to_add_.j));
  for (std::uint32_t p = 0; p < processes(); ++p)
    if (p != rank()) {
      pop(transport, p, lane_id::contributions);
      ++peers_[p].contributions.next.i;
    }
  ++next_to_add_.j;
  complete_one(op);
  return true;
}

} // namespace troupe::collective
