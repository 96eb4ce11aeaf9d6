#include "troupe/strategies/collective/state_machine.hpp"

#include <algorithm>

// Order of packets in each queue, the inputs that are missing, and error texts.
// Sender and receiver compute the same order.

namespace troupe::collective {

/// Returns the index of the j-th chunk that `reducer` adds. An `all_to_all`
/// bucket has one chunk, and every process adds it.
std::uint32_t state_machine::chunk_of(const operation& op,
                                      std::uint32_t reducer,
                                      std::uint32_t j) const {
  const auto all = processes();
  return op.chunks.all_to_all
           ? j
           : (reducer + all - op.sequence % all) % all + j * all;
}

bool state_machine::has_chunk(const operation& op, std::uint32_t reducer,
                              std::uint32_t j) const {
  return chunk_of(op, reducer, j) < op.chunks.count;
}

/// Moves the cursor to the next contribution that `sender` sends to `receiver`.
/// @returns false if no operation that has started here has a further
///          contribution.
bool state_machine::next_contribution(cursor& position, std::uint32_t sender,
                                      std::uint32_t receiver) const {
  for (; position.operation_number < ready_;
       position = {position.operation_number + 1, 0, 0}) {
    const auto& r = operation_at(position.operation_number);
    if (r.kind == packet_kind::gather_contribution) {
      if (position.j < placement_.job.replicas_of(sender).size())
        return true;
      continue;
    }
    if (uses_ring(r)) {
      if (next_hop(position, r.kind, sender, receiver))
        return true;
      continue;
    }
    if (position.i == subtrees_[sender].size())
      position = {position.operation_number, position.j + 1, 0};
    if (has_chunk(r, receiver, position.j))
      return true;
  }
  return false;
}

bool state_machine::next_result(cursor& position, std::uint32_t sender,
                                std::uint32_t receiver) const {
  for (; position.operation_number < ready_;
       position = {position.operation_number + 1, 0, 0}) {
    const auto& r = operation_at(position.operation_number);
    if (uses_ring(r)
          ? next_hop(position, packet_kind::result, sender, receiver)
          : r.kind != packet_kind::gather_contribution && !r.chunks.all_to_all
              && has_chunk(r, sender, position.j))
      return true;
  }
  return false;
}

bool state_machine::next_chunk_to_add(cursor& position) const {
  for (; position.operation_number < ready_;
       position = {position.operation_number + 1, 0, 0}) {
    const auto& r = operation_at(position.operation_number);
    if (r.kind != packet_kind::gather_contribution && !uses_ring(r)
        && has_chunk(r, rank(), position.j))
      return true;
  }
  return false;
}

// -- headers ------------------------------------------------------------------

packet_header state_machine::header_of(const operation& op, packet_kind kind,
                                       std::uint32_t sender) const {
  packet_header out;
  out.generation = generation_;
  out.step = op.step;
  out.sequence = op.sequence;
  out.bucket = op.bucket;
  out.sender = sender;
  out.kind = kind;
  if (kind != packet_kind::gather_contribution) {
    out.elements = op.spec.dims.elements();
    out.type = op.spec.type;
  }
  out.algorithm = op.options.algorithm;
  out.timeout = op.options.timeout;
  out.bytes_per_pack = op.options.bytes_per_pack;
  return out;
}

packet_header state_machine::contribution_header(const cursor& position,
                                                 std::uint32_t sender,
                                                 std::uint32_t receiver) const {
  const auto& r = operation_at(position.operation_number);
  auto out = header_of(r, r.kind, sender);
  if (r.kind == packet_kind::gather_contribution) {
    out.begin = placement_.job.replicas_of(sender)[position.j];
    out.end = out.begin + 1;
    out.chunk = position.i;
  } else if (uses_ring(r)) {
    out.chunk = chunk_at(position, packet_kind::contribution, sender);
    out.begin =
      placement_.job.replicas_of(ring_of(r).first_of(out.chunk)).front();
    out.end = placement_.job.replicas_of(sender).back() + 1;
  } else {
    out.begin = subtrees_[sender][position.i].begin;
    out.end = subtrees_[sender][position.i].end;
    out.chunk = chunk_of(r, receiver, position.j);
  }
  return out;
}

packet_header state_machine::result_header(const cursor& position,
                                           std::uint32_t sender) const {
  const auto& r = operation_at(position.operation_number);
  auto out = header_of(r, packet_kind::result, sender);
  out.end = replicas();
  out.chunk = uses_ring(r) ? chunk_at(position, packet_kind::result, sender)
                           : chunk_of(r, sender, position.j);
  return out;
}

std::span<std::byte> state_machine::bytes_of(const operation& op,
                                             const tensor& in,
                                             std::uint32_t chunk) const {
  const auto size = size_of(op.spec.type);
  const auto begin = op.chunks.chunk_elements * chunk * size;
  return {in.raw() + begin,
          std::min(op.chunks.chunk_elements * size, in.bytes() - begin)};
}

// -- who is missing -----------------------------------------------------------

/// Finds a peer that has not accepted all packets of a step.
std::optional<missing_inputs>
state_machine::undelivered(std::uint64_t step) const {
  missing_inputs out;
  for (std::uint32_t p = 0; p < processes(); ++p)
    for (const auto* x :
         {&peers_[p].contributions_out, &peers_[p].results_out}) {
      if (p == rank() || x->operation_number >= ready_
          || operation_at(x->operation_number).step != step)
        continue;
      out.bucket = operation_at(x->operation_number).bucket;
      out.processes = {p};
      out.replicas = placement_.job.replicas_of(p);
      return out;
    }
  return std::nullopt;
}

std::optional<missing_inputs> state_machine::missing(std::uint64_t step) const {
  if (complete_ >= base_ + operations_.size()
      || operation_at(complete_).step != step)
    return undelivered(step);
  const auto& op = operation_at(complete_);
  missing_inputs out{
    op.kind == packet_kind::gather_contribution, op.bucket, {}, {}};
  for (std::uint32_t i = 0; i < local_count(); ++i)
    if (local_replicas_[i].generation != generation_
        || local_replicas_[i].next <= complete_)
      out.replicas.push_back(placement_.replicas()[i]);
  if (!out.replicas.empty()) {
    out.processes = {rank()};
    return out;
  }
  const auto late = [&](const receive_state& in) {
    return in.next.operation_number == complete_ && !in.chunk_arrived;
  };
  if (uses_ring(op))
    out.processes = silent_ring_peers(op);
  for (const auto queue : {&peer_state::contributions, &peer_state::results}) {
    if (!out.processes.empty())
      break; // no result can arrive before the contributions
    for (std::uint32_t p = 0; p < processes(); ++p)
      if (p != rank() && late(peers_[p].*queue))
        out.processes.push_back(p);
  }
  if (out.processes.empty())
    return undelivered(step);
  for (const auto p : out.processes)
    for (auto r = out.gather ? peers_[p].contributions.next.j : 0;
         r < placement_.job.replicas_of(p).size(); ++r)
      out.replicas.push_back(placement_.job.replicas_of(p)[r]);
  std::ranges::sort(out.replicas);
  return out;
}

// -- texts --------------------------------------------------------------------

namespace {

std::string elements_of(const packet_header& header) {
  return header.kind == packet_kind::gather_contribution
           ? "gather " + std::to_string(header.bucket)
           : "bucket " + std::to_string(header.bucket) + " of "
               + std::to_string(header.elements) + " elements";
}

std::string type_of(const packet_header& header) {
  return static_cast<std::size_t>(header.type) < dtype_count
           ? std::string{to_string(header.type)}
           : "an unknown type";
}

} // namespace

std::string state_machine::describe(const packet_header& header) {
  const auto piece =
    header.kind == packet_kind::gather_contribution ? "piece " : "chunk ";
  const auto of = header.kind == packet_kind::result ? "the result of "
                  : header.kind == packet_kind::contribution
                    ? "a contribution to "
                    : "";
  return of + std::string{piece} + std::to_string(header.chunk) + " of "
         + elements_of(header) + " of replicas [" + std::to_string(header.begin)
         + ", " + std::to_string(header.end) + ")";
}

std::string
state_machine::describe_mismatch(const packet_header& received,
                                 const packet_header& expected) const {
  const auto sent = "process " + std::to_string(expected.sender) + " sent ";
  const auto step = " was expected in step " + std::to_string(expected.step);
  const std::string differ = "the replicas do not call the same collectives";
  const auto with_options = [](const packet_header& header) {
    return elements_of(header) + " " + to_string(header.options());
  };
  if (received.step != expected.step || received.sequence != expected.sequence)
    return sent + elements_of(received) + " of step "
           + std::to_string(received.step) + " where " + elements_of(expected)
           + step + ": a packet was lost, or " + differ;
  if (received.options() != expected.options())
    return sent + with_options(received) + " where " + with_options(expected)
           + step + ": the replicas do not pass the same options";
  if (received.bucket != expected.bucket
      || received.elements != expected.elements
      || (received.kind == packet_kind::gather_contribution)
           != (expected.kind == packet_kind::gather_contribution))
    return sent + elements_of(received) + " where " + elements_of(expected)
           + step + ": " + differ;
  if (received.type != expected.type)
    return sent + elements_of(received) + " of " + type_of(received) + " where "
           + type_of(expected) + step + ": " + differ;
  return sent + describe(received) + " where " + describe(expected) + step
         + ": a packet was lost";
}

} // namespace troupe::collective
