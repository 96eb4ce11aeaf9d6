#include "troupe/strategies/collective/state_machine.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace troupe::collective {

namespace {

[[noreturn]] void throw_usage_error(const std::string& what) {
  throw std::logic_error(what);
}

std::string text_of(packet_kind kind, std::uint32_t bucket,
                    const tensor_spec& spec,
                    const collective_options& options) {
  return (kind == packet_kind::gather_contribution
            ? "gather " + std::to_string(bucket)
            : "bucket " + std::to_string(bucket) + " of " + to_string(spec))
         + (options == collective_options{} ? "" : " " + to_string(options));
}

} // namespace

state_machine::state_machine(local_placement placed)
  : placement_{std::move(placed)},
    peers_(processes()),
    range_end_(replicas()),
    scratch_(replicas()),
    leaves_(replicas()) {
  for (std::uint32_t p = 0; p < processes(); ++p) {
    if (placement_.job.replicas_of(p).empty())
      throw_usage_error("process " + std::to_string(p)
                        + " of a collective has no replica");
    subtrees_.push_back(subtrees_of(placement_.job, p));
    for (const auto& range : placement_.job.ranges_of(p))
      std::fill(range_end_.begin() + range.begin,
                range_end_.begin() + range.end, range.end);
  }
  local_replicas_.resize(local_count());
}

// -- generations and steps ----------------------------------------------------

state_machine::local_replica_state&
state_machine::state_of(std::uint32_t replica) {
  return local_replicas_[placement_.job.index_of(replica)];
}

const state_machine::local_replica_state&
state_machine::state_of(std::uint32_t replica) const {
  return local_replicas_[placement_.job.index_of(replica)];
}

void state_machine::start_generation(std::uint64_t generation) {
  for (auto& p : peers_)
    for (auto* in : {&p.contributions, &p.results})
      if (!in->destination.empty() && !in->received)
        discard_rest(*in, in->destination.size());
  generation_ = generation;
  aborted_ = false;
  error_.reset();
  for (auto& r : operations_)
    release_inputs(r);
  operations_.clear();
  base_ = ready_ = complete_ = 0;
  next_to_add_ = {};
  for (auto& p : peers_) {
    p.contributions_out = p.results_out = {};
    for (auto* in : {&p.contributions, &p.results}) {
      in->next = {};
      in->chunk_arrived = false;
    }
  }
}

/// Redirects the rest of a stale packet to scratch memory, because the caller
/// may reuse the tensor to which the packet was being copied.
void state_machine::discard_rest(receive_state& state, std::size_t bytes) {
  if (!discard_buffer_)
    discard_buffer_ =
      tensor{shape{std::int64_t(max_packet_bytes)}, dtype::uint8};
  state.destination = {discard_buffer_.raw(), bytes};
  state.destination_owner = discard_buffer_;
}

void state_machine::begin_generation(std::uint32_t replica,
                                     std::uint64_t generation) {
  if (generation > generation_)
    start_generation(generation);
  auto& m = state_of(replica);
  if (m.generation != generation)
    m = {};
  m.generation = generation;
}

bool state_machine::is_current(std::uint32_t replica) const {
  return state_of(replica).generation == generation_ && !aborted_;
}

void state_machine::begin_step(std::uint32_t replica, std::uint64_t step) {
  auto& m = state_of(replica);
  m.step = step;
  m.first = m.next;
  m.highest = {-1, -1};
  trim();
}

void state_machine::end_step(std::uint32_t replica) {
  auto& m = state_of(replica);
  if (is_current(replica) && !is_drained(replica)) {
    aborted_ = true;
    for (auto& r : operations_)
      release_inputs(r);
  }
  m.first = m.next;
  trim();
}

// -- contributions ------------------------------------------------------------

const state_machine::operation*
state_machine::find(const local_replica_state& m, packet_kind kind,
                    std::uint32_t bucket) const {
  const auto fits = [&](std::uint64_t number) {
    const auto& op = operation_at(number);
    return op.bucket == bucket && op.kind == kind;
  };
  if (m.first + bucket < m.next && fits(m.first + bucket))
    return &operation_at(m.first + bucket);
  for (auto number = m.first; number < m.next; ++number)
    if (fits(number))
      return &operation_at(number);
  return nullptr;
}

state_machine::operation&
state_machine::next_operation(std::uint32_t replica, packet_kind kind,
                              std::uint32_t bucket, const tensor& input,
                              const collective_options& options) {
  auto& m = state_of(replica);
  auto& highest = m.highest[kind == packet_kind::gather_contribution];
  if (bucket <= highest && find(m, kind, bucket))
    throw_usage_error(kind == packet_kind::gather_contribution
                        ? "gather " + std::to_string(bucket)
                            + " was called twice in a step"
                        : "bucket " + std::to_string(bucket)
                            + " was contributed to twice in a step");
  highest = std::max<std::int64_t>(highest, bucket);
  const auto k = static_cast<std::uint32_t>(m.next - m.first);
  const auto spec =
    kind == packet_kind::gather_contribution ? tensor_spec{} : input.spec();
  if (m.next == base_ + operations_.size()) {
    auto& opened = operations_.emplace_back();
    try {
      opened.inputs.resize(local_count());
      if (kind == packet_kind::gather_contribution)
        opened.gathered.resize(replicas());
    } catch (...) {
      operations_.pop_back();
      throw;
    }
    opened.kind = kind;
    opened.step = m.step;
    opened.sequence = k;
    opened.bucket = bucket;
    opened.first_contributor = replica;
    opened.options = options;
    opened.spec = spec;
  }
  auto& op = operation_at(m.next);
  if (op.step != m.step || op.sequence != k || op.kind != kind
      || op.bucket != bucket || op.spec != spec || op.options != options)
    throw_usage_error("replica " + std::to_string(replica) + " contributed "
                      + text_of(kind, bucket, spec, options) + " as operation "
                      + std::to_string(k) + " of step " + std::to_string(m.step)
                      + ", replica " + std::to_string(op.first_contributor)
                      + " " + text_of(op.kind, op.bucket, op.spec, op.options)
                      + " as operation " + std::to_string(op.sequence)
                      + " of step " + std::to_string(op.step)
                      + ": the replicas do not call the same collectives");
  ++m.next;
  return op;
}

void state_machine::contribute(std::uint32_t replica, std::uint32_t bucket,
                               const tensor& input,
                               const collective_options& options,
                               output_placement result_placement) {
  if (!is_current(replica))
    return;
  if (!input
      || (input.type() != dtype::float32 && input.type() != dtype::float64))
    throw_usage_error("bucket " + std::to_string(bucket)
                      + " is not of float32 or float64");
  auto& op =
    next_operation(replica, packet_kind::contribution, bucket, input, options);
  op.inputs[placement_.job.index_of(replica)] = input;
  op.result_placement = result_placement;
  start_ready();
}

void state_machine::gather(std::uint32_t replica, std::uint32_t bucket,
                           const tensor& input,
                           const collective_options& options) {
  if (!is_current(replica))
    return;
  if (!input || input.bytes() > max_gather_bytes)
    throw_usage_error("gather " + std::to_string(bucket) + " was called with "
                      + (input
                           ? to_string(input.spec()) + ", which is more than "
                               + std::to_string(max_gather_bytes) + " bytes"
                           : "no tensor"));
  const collective_options plain{collective_options::algorithm_kind::tree,
                                 options.timeout, options.bytes_per_pack};
  // peers may read the tensor after this step has ended
  const auto copy = input.clone();
  auto& op = next_operation(replica, packet_kind::gather_contribution, bucket,
                            input, plain);
  op.inputs[placement_.job.index_of(replica)] = copy;
  op.gathered[replica] = copy;
  start_ready();
}

/// Starts the operations that all local replicas have contributed to.
void state_machine::start_ready() {
  auto until = ~std::uint64_t{0};
  for (const auto& m : local_replicas_)
    until = std::min(until, m.generation == generation_ ? m.next : 0);
  for (; ready_ < until; ++ready_)
    start_operation(operation_at(ready_));
}

/// Starts an operation. If the allocation of the result throws, the operation
/// is not started, and a later call can start it.
void state_machine::start_operation(operation& op) {
  if (op.kind == packet_kind::gather_contribution) {
    op.remaining = replicas() - local_count();
  } else {
    op.chunks = chunking_of(op.spec.dims.elements(), op.spec.type, processes(),
                            op.options.algorithm);
    // A caller may change its contribution once it has the sum. An all-to-all
    // operation is therefore complete only when its packets have been sent.
    op.remaining =
      op.chunks.count + (op.chunks.all_to_all ? processes() - 1 : 0);
    const bool in_place = op.result_placement == output_placement::in_place
                          && local_count() == 1 && !op.chunks.all_to_all
                          && !uses_ring(op);
    op.output = in_place ? op.inputs[0] : tensor{op.spec};
  }
  op.started = true;
  if (op.remaining == 0)
    complete_operation();
}

void state_machine::complete_one(operation& op) {
  if (--op.remaining == 0)
    complete_operation();
}

void state_machine::complete_operation() {
  ++completed_;
  while (complete_ < base_ + operations_.size()
         && operation_at(complete_).started
         && operation_at(complete_).remaining == 0)
    ++complete_;
}

/// Releases the contributions of an operation, or moves them to
/// `zero_copy_tensors_` while peers may read them.
void state_machine::release_inputs(operation& op) {
  if (zero_copy_pending_) {
    std::ranges::copy(op.inputs, std::back_inserter(zero_copy_tensors_));
    zero_copy_tensors_.push_back(op.output);
  }
  op.inputs.clear();
}

void state_machine::release_zero_copy() {
  zero_copy_pending_ = false;
  zero_copy_tensors_.clear();
}

/// Removes operations that no replica and no queue needs any more.
void state_machine::trim() {
  auto until = complete_;
  for (const auto& m : local_replicas_)
    until = std::min(until, m.generation == generation_ ? m.first : 0);
  for (std::uint32_t p = 0; p < processes(); ++p)
    if (p != rank())
      for (const auto* x :
           {&peers_[p].contributions_out, &peers_[p].results_out,
            &peers_[p].contributions.next, &peers_[p].results.next})
        until = std::min(until, x->operation_number);
  until = std::min(until, next_to_add_.operation_number);
  const auto count = until - base_;
  if (count == 0)
    return;
  const auto end = operations_.begin() + static_cast<std::ptrdiff_t>(count);
  std::for_each(operations_.begin(), end,
                [this](operation& op) { release_inputs(op); });
  operations_.erase(operations_.begin(), end);
  base_ = until;
}

// -- results ------------------------------------------------------------------

tensor state_machine::sum_of(std::uint32_t replica,
                             std::uint32_t bucket) const {
  if (!is_current(replica))
    return {};
  const auto* op = find(state_of(replica), packet_kind::contribution, bucket);
  if (!op)
    throw_usage_error("the sum of bucket " + std::to_string(bucket)
                      + " was requested before a contribution to it");
  return op->started && op->remaining == 0 ? op->output : tensor{};
}

tensors state_machine::gathered(std::uint32_t replica,
                                std::uint32_t bucket) const {
  if (!is_current(replica))
    return {};
  const auto& m = state_of(replica);
  const auto* op = find(m, packet_kind::gather_contribution, bucket);
  return op && op->started && op->remaining == 0 ? op->gathered : tensors{};
}

bool state_machine::is_complete(std::uint32_t replica) const {
  return complete_ >= state_of(replica).next;
}

bool state_machine::is_drained(std::uint32_t replica) const {
  const auto until = state_of(replica).next;
  if (complete_ < until)
    return false;
  for (std::uint32_t p = 0; p < processes(); ++p)
    if (p != rank()
        && (peers_[p].contributions_out.operation_number < until
            || peers_[p].results_out.operation_number < until))
      return false;
  return true;
}

std::optional<std::uint32_t>
state_machine::first_incomplete(std::uint32_t replica) const {
  if (is_complete(replica) || !is_current(replica))
    return std::nullopt;
  return operation_at(complete_).bucket;
}

} // namespace troupe::collective
