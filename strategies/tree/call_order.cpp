#include "troupe/strategies/tree/call_order.hpp"

namespace troupe::tree {

namespace {

std::string text_of(const collective_call& call, bool with_options) {
  return (call.is_gather ? "gather " : "bucket ") + std::to_string(call.bucket)
         + " of " + to_string(call.spec)
         + (with_options ? " " + to_string(call.options) : "");
}

/// Returns the options that must be equal. A gather has no algorithm.
collective_options compared_options(const collective_call& call) {
  auto options = call.options;
  if (call.is_gather)
    options.algorithm = {};
  return options;
}

} // namespace

std::string describe_difference(const collective_call& a,
                                const collective_call& b) {
  if (!a.is_gather && !b.is_gather)
    return "";
  const bool same_collective =
    a.is_gather == b.is_gather && a.bucket == b.bucket;
  if (same_collective && compared_options(a) == compared_options(b))
    return "";
  return "replica " + std::to_string(a.replica) + " called "
         + text_of(a, same_collective) + " as operation "
         + std::to_string(a.sequence) + " of step " + std::to_string(a.step)
         + ", replica " + std::to_string(b.replica) + " "
         + text_of(b, same_collective)
         + (same_collective
              ? ": the replicas do not pass the same options"
              : ": the replicas do not call the same collectives");
}

void call_order::begin_step(std::uint64_t generation, std::uint64_t step) {
  const bool same = generation == generation_;
  if (!same)
    difference_.reset();
  generation_ = generation;
  step_ = step;
  own_.clear();
  std::erase_if(gathers_, [&](const collective_call& call) {
    return !same || call.step < step;
  });
}

void call_order::on_own_call(collective_call call) {
  call.replica = replica_;
  call.step = step_;
  call.sequence = size();
  own_.push_back(std::move(call));
  for (const auto& gather : gathers_)
    if (gather.sequence + 1 == size())
      compare(gather);
}

void call_order::on_gather(const collective_call& call) {
  compare(call);
  gathers_.push_back(call);
}

/// Compares a gather of another replica with the own call at its place.
void call_order::compare(const collective_call& other) {
  if (difference_ || other.step != step_ || other.sequence >= size())
    return;
  auto text = describe_difference(other, own_[other.sequence]);
  if (!text.empty())
    difference_ = std::move(text);
}

} // namespace troupe::tree
