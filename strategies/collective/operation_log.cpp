#include "troupe/strategies/collective/operation_log.hpp"

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
  return (kind == packet_kind::gather_contribution ? "gather " : "bucket ")
         + std::to_string(bucket) + " of " + to_string(spec)
         + (options == collective_options{} ? "" : " " + to_string(options));
}

} // namespace

operation_log::operation_log(const local_placement& placed)
  : placement_{placed} {
  replicas_.resize(placed.count());
}

// -- generations and steps ----------------------------------------------------

void operation_log::start_generation(std::uint64_t generation) {
  generation_ = generation;
  aborted_ = false;
  for (auto& op : operations_)
    release_inputs(op);
  operations_.clear();
  base_ = started_ = first_incomplete_ = 0;
}

void operation_log::join_generation(std::uint32_t replica,
                                    std::uint64_t generation) {
  auto& m = state_of(replica);
  if (m.generation != generation)
    m = {};
  m.generation = generation;
}

void operation_log::abort() {
  aborted_ = true;
  for (auto& op : operations_)
    release_inputs(op);
}

bool operation_log::is_current(std::uint32_t replica) const {
  return state_of(replica).generation == generation_ && !aborted_;
}

void operation_log::begin_step(std::uint32_t replica, std::uint64_t step) {
  auto& m = state_of(replica);
  m.step = step;
  m.first = m.next;
  m.highest = {-1, -1};
}

void operation_log::end_step(std::uint32_t replica) {
  auto& m = state_of(replica);
  m.first = m.next;
}

// -- calls --------------------------------------------------------------------

const operation* operation_log::find(const replica_state& m, packet_kind kind,
                                     std::uint32_t bucket) const {
  const auto fits = [&](std::uint64_t number) {
    const auto& op = (*this)[number];
    return op.bucket == bucket && op.kind == kind;
  };
  if (m.first + bucket < m.next && fits(m.first + bucket))
    return &(*this)[m.first + bucket];
  for (auto number = m.first; number < m.next; ++number)
    if (fits(number))
      return &(*this)[number];
  return nullptr;
}

operation& operation_log::next_operation(std::uint32_t replica,
                                         packet_kind kind, std::uint32_t bucket,
                                         const tensor& input,
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
  if (m.next == end()) {
    auto& opened = operations_.emplace_back();
    try {
      opened.inputs.resize(placement_.count());
      if (kind == packet_kind::gather_contribution)
        opened.gathered.resize(placement_.job.replicas());
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
  auto& op = (*this)[m.next];
  if (op.step != m.step || op.sequence != k || op.kind != kind
      || op.bucket != bucket || op.spec != spec || op.options != options)
    throw_usage_error("replica " + std::to_string(replica) + " contributed "
                      + text_of(kind, bucket, input.spec(), options)
                      + " as operation " + std::to_string(k) + " of step "
                      + std::to_string(m.step) + ", replica "
                      + std::to_string(op.first_contributor) + " "
                      + text_of(op.kind, op.bucket, first_spec(op), op.options)
                      + " as operation " + std::to_string(op.sequence)
                      + " of step " + std::to_string(op.step)
                      + ": the replicas do not call the same collectives");
  ++m.next;
  return op;
}

tensor_spec operation_log::first_spec(const operation& op) const {
  const auto index = placement_.job.index_of(op.first_contributor);
  return op.is_gather() && index < op.inputs.size() && op.inputs[index]
           ? op.inputs[index].spec()
           : op.spec;
}

void operation_log::contribute(std::uint32_t replica, std::uint32_t bucket,
                               const tensor& input,
                               const collective_options& options,
                               output_placement result_placement) {
  if (!input
      || (input.type() != dtype::float32 && input.type() != dtype::float64))
    throw_usage_error("bucket " + std::to_string(bucket)
                      + " is not of float32 or float64");
  auto& op =
    next_operation(replica, packet_kind::contribution, bucket, input, options);
  op.inputs[placement_.job.index_of(replica)] = input;
  op.result_placement = result_placement;
}

void operation_log::gather(std::uint32_t replica, std::uint32_t bucket,
                           const tensor& input,
                           const collective_options& options) {
  if (!input || input.bytes() > max_gather_bytes)
    throw_usage_error("gather " + std::to_string(bucket) + " was called with "
                      + (input
                           ? to_string(input.spec()) + ", which is more than "
                               + std::to_string(max_gather_bytes) + " bytes"
                           : "no tensor"));
  const collective_options plain{collective_options::algorithm_kind::tree,
                                 options.timeout, options.bytes_per_pack,
                                 options.tensors};
  // peers may read the tensor after this step has ended
  const auto copy = input.clone();
  auto& op = next_operation(replica, packet_kind::gather_contribution, bucket,
                            input, plain);
  op.inputs[placement_.job.index_of(replica)] = copy;
  op.gathered[replica] = copy;
}

std::vector<std::uint32_t>
operation_log::replicas_without(std::uint64_t number) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < replicas_.size(); ++i)
    if (replicas_[i].generation != generation_ || replicas_[i].next <= number)
      out.push_back(placement_.replicas()[i]);
  return out;
}

// -- progress -----------------------------------------------------------------

operation* operation_log::next_ready() {
  for (const auto& m : replicas_)
    if (m.generation != generation_ || m.next <= started_)
      return nullptr;
  return &(*this)[started_];
}

void operation_log::mark_started() {
  auto& op = (*this)[started_++];
  op.started = true;
  if (op.remaining == 0)
    complete_operation();
}

void operation_log::complete_item(operation& op) {
  if (--op.remaining == 0)
    complete_operation();
}

void operation_log::complete_operation() {
  ++completed_;
  while (first_incomplete_ < end() && (*this)[first_incomplete_].is_complete())
    ++first_incomplete_;
}

// -- results ------------------------------------------------------------------

tensor operation_log::sum_of(std::uint32_t replica,
                             std::uint32_t bucket) const {
  if (!is_current(replica))
    return {};
  const auto* op = find(state_of(replica), packet_kind::contribution, bucket);
  if (!op)
    throw_usage_error("the sum of bucket " + std::to_string(bucket)
                      + " was requested before a contribution to it");
  return op->is_complete() ? op->output : tensor{};
}

tensors operation_log::gathered(std::uint32_t replica,
                                std::uint32_t bucket) const {
  if (!is_current(replica))
    return {};
  const auto* op =
    find(state_of(replica), packet_kind::gather_contribution, bucket);
  return op && op->is_complete() ? op->gathered : tensors{};
}

// -- lifetime of tensors ------------------------------------------------------

/// Releases the contributions of an operation, or moves them to
/// `zero_copy_tensors_` while peers may read them.
void operation_log::release_inputs(operation& op) {
  if (zero_copy_pending_) {
    std::ranges::copy(op.inputs, std::back_inserter(zero_copy_tensors_));
    zero_copy_tensors_.push_back(op.output);
  }
  op.inputs.clear();
}

void operation_log::release_zero_copy() {
  zero_copy_pending_ = false;
  zero_copy_tensors_.clear();
}

void operation_log::trim(std::uint64_t first_needed) {
  auto until = std::min(first_incomplete_, first_needed);
  for (const auto& m : replicas_)
    until = std::min(until, m.generation == generation_ ? m.first : 0);
  const auto count = until - base_;
  if (count == 0)
    return;
  const auto last = operations_.begin() + static_cast<std::ptrdiff_t>(count);
  std::for_each(operations_.begin(), last,
                [this](operation& op) { release_inputs(op); });
  operations_.erase(operations_.begin(), last);
  base_ = until;
}

} // namespace troupe::collective
