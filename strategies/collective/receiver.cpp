#include "troupe/strategies/collective/receiver.hpp"

#include "troupe/strategies/collective/reduce_kernels.hpp"

#include <tuple>

namespace troupe::collective {

receiver::receiver(const local_placement& placed, operation_log& log,
                   const packet_order& order, queue_positions& positions)
  : placement_{placed},
    log_{log},
    order_{order},
    positions_{positions},
    reducer_{placed},
    fronts_(placed.job.processes()) {}

bool receiver::receive(packet_transport& transport, std::uint32_t peer,
                       lane_id lane) {
  if (lane == lane_id::contributions && positions_.chunk_arrived(peer))
    return false; // other peers' packets of this chunk are still missing
  const queue from{transport, peer, lane};
  const queue_id id{lane, peer, placement_.process};
  auto& next = positions_.received(peer, lane);
  const bool open = order_.find(next, id);
  const auto expected = open ? order_.header_of(next, id) : packet_header{};
  const auto match = classify(from, open ? &expected : nullptr,
                              open ? &log_[next.operation_number] : nullptr);
  if (match == packet_match::stale)
    return discard(from);
  if (match != packet_match::expected)
    return false;
  auto& op = log_[next.operation_number];
  const auto& schedule = order_.schedule_of(op);
  const auto to = schedule.destination_of(op, next, expected, id, positions_);
  if (to.how == destination::kind::too_early) {
    set_error(peer, "it sent " + describe(expected)
                      + " before this process had added its contribution");
    return false;
  }
  if (!has_size(from, to.bytes))
    return false;
  bool complete = false;
  if (to.how == destination::kind::store)
    complete = read_into(from, {to.into, to.bytes}, *to.target);
  else if (to.how == destination::kind::spec)
    complete = read_spec(from, op.bucket, *to.target);
  else if (to.how == destination::kind::add)
    complete = add_local(from, op, expected.chunk, to);
  else
    complete = collect(from, op, expected.begin, to);
  if (!complete)
    return false;
  if (to.completes_chunk) {
    positions_.chunk_arrived(peer) = true;
    return true;
  }
  if (!transport.is_intact(peer, lane))
    return false;
  pop(from);
  if (schedule.advance(op, next, id))
    log_.complete_item(op);
  return true;
}

// -- checks -------------------------------------------------------------------

/// Compares the front packet of a queue with the expected header. Null
/// `expected`: no packet is expected yet. `op` is the operation of the expected
/// packet.
receiver::packet_match receiver::classify(const queue& from,
                                          const packet_header* expected,
                                          const operation* op) {
  const auto* front = from.transport.front(from.peer, from.lane);
  if (!front)
    return packet_match::early;
  const auto received = read(*front);
  if (received.generation > log_.generation())
    return packet_match::early;
  if (received.generation < log_.generation()
      || received == front_of(from).last)
    return packet_match::stale;
  if (!expected)
    return packet_match::early;
  if (received == *expected)
    return packet_match::expected;
  if (std::tie(received.step, received.sequence)
      < std::tie(expected->step, expected->sequence))
    return packet_match::stale;
  const auto is_gather = [](const packet_header& header) {
    return header.kind == packet_kind::gather_contribution;
  };
  const auto call_of = [&](const packet_header& header) {
    return std::tuple{is_gather(header), header.bucket, header.elements,
                      header.type};
  };
  const bool same_collective = is_gather(received) == is_gather(*expected)
                               && received.bucket == expected->bucket;
  if (received.step != expected->step || received.sequence != expected->sequence
      || (same_collective && received.options() != expected->options())
      || call_of(received) == call_of(*expected))
    set_error(from.peer, describe_mismatch(received, *expected));
  else if (const auto spec = front_spec(from, received))
    set_error(
      from.peer,
      std::string{"it sent "} + (is_gather(received) ? "gather " : "bucket ")
        + std::to_string(received.bucket) + " of " + *spec + " of replicas ["
        + std::to_string(received.begin) + ", " + std::to_string(received.end)
        + ") as operation " + std::to_string(received.sequence) + " of step "
        + std::to_string(received.step) + " where replica "
        + std::to_string(op->first_contributor) + " called "
        + (op->is_gather() ? "gather " : "bucket ") + std::to_string(op->bucket)
        + " of " + to_string(log_.first_spec(*op))
        + (same_collective
             ? ": the replicas do not pass the same shapes and dtypes"
             : ": the replicas do not call the same collectives"));
  else
    return packet_match::early;
  return packet_match::mismatch;
}

/// Returns a text of the tensor that the front packet is a part of. None: the
/// packet is the first piece of a gather, whose spec is still arriving.
std::optional<std::string> receiver::front_spec(const queue& from,
                                                const packet_header& header) {
  if (header.kind != packet_kind::gather_contribution)
    return std::to_string(header.elements) + " elements of "
           + (static_cast<std::size_t>(header.type) < dtype_count
                ? std::string{to_string(header.type)}
                : "an unknown type");
  auto& bytes = front_of(from).spec;
  tensor_spec spec;
  if (header.chunk != 0
      || from.transport.front_bytes(from.peer, from.lane) != bytes.size())
    return "an unknown spec";
  if (!read_into(from, bytes, {}))
    return std::nullopt;
  return read(bytes, spec) ? to_string(spec) : "an invalid spec";
}

bool receiver::has_size(const queue& from, std::size_t bytes) {
  const auto actual = from.transport.front_bytes(from.peer, from.lane);
  if (actual != bytes)
    set_error(from.peer, "it sent " + std::to_string(actual) + " bytes where "
                           + std::to_string(bytes) + " were expected");
  return actual == bytes;
}

/// Returns true if a peer's payload is aligned for its element type. Otherwise
/// sets a protocol error and returns false.
bool receiver::is_aligned(std::uint32_t peer, const std::byte* at, dtype type) {
  const bool it_is = reinterpret_cast<std::uintptr_t>(at) % size_of(type) == 0;
  if (!it_is)
    set_error(peer, "it sent " + std::string{to_string(type)}
                      + " at an address that is not aligned");
  return it_is;
}

void receiver::set_error(std::uint32_t process, std::string reason) {
  if (!error_)
    error_ = protocol_error{process, std::move(reason)};
}

// -- payloads -----------------------------------------------------------------

// Each of these functions returns true if the payload is complete, and false if
// it is still arriving or there is a protocol error.

bool receiver::read_into(const queue& from, std::span<std::byte> into,
                         const tensor& keep) {
  auto& front = front_of(from);
  if (front.received)
    return true;
  front.destination = into;
  front.destination_owner = keep;
  return front.received = from.transport.read_into(from.peer, from.lane, into);
}

/// Reads the spec of a gathered tensor, and allocates the tensor.
bool receiver::read_spec(const queue& from, std::uint32_t bucket,
                         tensor& target) {
  auto& bytes = front_of(from).spec;
  if (!read_into(from, bytes, {}))
    return false;
  tensor_spec spec;
  if (!read(bytes, spec)) {
    set_error(from.peer, "it sent a contribution to gather "
                           + std::to_string(bucket)
                           + " whose tensor spec is invalid or too large");
    return false;
  }
  target = tensor{spec};
  return true;
}

/// Adds the local contributions to a received one.
bool receiver::add_local(const queue& from, const operation& op,
                         std::uint32_t chunk, const destination& to) {
  const std::span into{to.into, to.bytes};
  std::span<const std::byte> payload =
    from.transport.view(from.peer, from.lane);
  if (payload.empty()) {
    if (!read_into(from, into, *to.target))
      return false;
    payload = into;
  }
  if (!is_aligned(from.peer, payload.data(), op.spec.type))
    return false;
  add_inputs(payload.data(), op.inputs,
             {op.spec.type, op.chunk_offset(chunk), to.bytes}, to.into);
  return true;
}

/// Keeps a contribution for `add_chunk`. Only the last one of a peer may stay
/// in the transport's memory, because it is not popped before.
bool receiver::collect(const queue& from, const operation& op,
                       std::uint32_t first, const destination& to) {
  auto payload = to.completes_chunk ? from.transport.view(from.peer, from.lane)
                                    : std::span<const std::byte>{};
  if (payload.empty()) {
    const auto& buffer = reducer_.buffer_of(first);
    const std::span into{buffer.raw(), to.bytes};
    if (!read_into(from, into, buffer))
      return false;
    payload = into;
  }
  if (!is_aligned(from.peer, payload.data(), op.spec.type))
    return false;
  reducer_.collect(first, payload.data());
  return true;
}

bool receiver::add_chunk(packet_transport& transport) {
  auto& next = positions_.next_to_add;
  if (!order_.find_chunk_to_add(next))
    return false;
  const auto processes = placement_.job.processes();
  for (std::uint32_t p = 0; p < processes; ++p) {
    const auto& arrived = positions_.received(p, lane_id::contributions);
    if (p != placement_.process
        && (!positions_.chunk_arrived(p)
            || arrived.operation_number != next.operation_number
            || arrived.j != next.j))
      return false;
  }
  auto& op = log_[next.operation_number];
  reducer_.reduce(op, order_.chunk_to_add(next));
  if (!are_contributions_intact(transport))
    return false;
  for (std::uint32_t p = 0; p < processes; ++p)
    if (p != placement_.process) {
      pop({transport, p, lane_id::contributions});
      ++positions_.received(p, lane_id::contributions).i;
      positions_.chunk_arrived(p) = false;
    }
  ++next.j;
  log_.complete_item(op);
  return true;
}

/// Checks the front packets of all peers, which `reduce` has read in place. A
/// packet that may have changed counts as not arrived.
bool receiver::are_contributions_intact(packet_transport& transport) {
  bool all = true;
  for (std::uint32_t p = 0; p < placement_.job.processes(); ++p)
    if (p != placement_.process
        && !transport.is_intact(p, lane_id::contributions)) {
      positions_.chunk_arrived(p) = false;
      all = false;
    }
  return all;
}

// -- popping ------------------------------------------------------------------

void receiver::pop(const queue& from) {
  auto& front = front_of(from);
  front.last = read(*from.transport.front(from.peer, from.lane));
  from.transport.pop(from.peer, from.lane);
  front.destination = {};
  front.destination_owner = {};
  front.received = false;
}

/// Discards a stale front packet. Returns false while its payload is still
/// arriving.
bool receiver::discard(const queue& from) {
  auto& front = front_of(from);
  if (!front.received && from.transport.view(from.peer, from.lane).empty()) {
    if (front.destination.empty())
      discard_rest(front, from.transport.front_bytes(from.peer, from.lane));
    if (!read_into(from, front.destination, tensor{front.destination_owner}))
      return false;
  }
  pop(from);
  return true;
}

/// Redirects the rest of a stale packet to scratch memory, because the caller
/// may reuse the tensor to which the packet was being copied.
void receiver::discard_rest(front_packet& front, std::size_t bytes) {
  if (!discard_buffer_)
    discard_buffer_ =
      tensor{shape{std::int64_t(max_packet_bytes)}, dtype::uint8};
  front.destination = {discard_buffer_.raw(), bytes};
  front.destination_owner = discard_buffer_;
}

void receiver::start_generation() {
  for (auto& lanes : fronts_)
    for (auto& front : lanes)
      if (!front.destination.empty() && !front.received)
        discard_rest(front, front.destination.size());
  error_.reset();
}

} // namespace troupe::collective
