#include "troupe/strategies/tree/participant.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::tree {

namespace {

[[noreturn]] void throw_usage_error(const std::string& what) {
  throw std::logic_error(what);
}

} // namespace

participant::participant(std::uint32_t replica, std::uint32_t replicas)
  : replica_{replica}, replicas_{replicas}, order_{replica} {}

void participant::begin_step(std::uint64_t generation, std::uint64_t step) {
  order_.begin_step(generation, step);
  const bool same = generation == generation_;
  generation_ = generation;
  step_ = step;
  pending_reduces_.clear();
  incomplete_ = 0;
  std::erase_if(pending_gathers_, [&](const pending_gather& c) {
    return !same || c.step < step;
  });
}

participant::pending_reduce* participant::find(std::uint32_t bucket) {
  const auto it =
    std::ranges::find(pending_reduces_, bucket, &pending_reduce::bucket);
  return it == pending_reduces_.end() ? nullptr : &*it;
}

tensor participant::contribute(std::uint32_t bucket, const tensor& input,
                               std::uint32_t slices,
                               const collective_options& options) {
  if (find(bucket))
    throw_usage_error("bucket " + std::to_string(bucket)
                      + " was contributed to twice in a step");
  pending_reduces_.push_back({bucket, slices, 0, 0, {}, false});
  ++incomplete_;
  order_.on_own_call(
    {.bucket = bucket, .spec = input.spec(), .options = options});
  return slices > 1 && replica_ == 0 ? tensor{input.spec()} : tensor{};
}

bool participant::on(const reduced_slice& result, const tensor& output) {
  if (result.key.generation != generation_ || result.key.step != step_)
    return false;
  auto* pending = find(result.key.bucket);
  if (!pending || pending->done || result.key.slices != pending->slices
      || result.key.slice >= pending->slices
      || (pending->arrived >> result.key.slice & 1))
    return false;
  pending->arrived |= std::uint64_t{1} << result.key.slice;
  pending->output = output;
  if (++pending->count < pending->slices)
    return false;
  pending->done = true;
  --incomplete_;
  return true;
}

const tensor& participant::sum_of(std::uint32_t bucket) const {
  static const tensor none;
  const auto it =
    std::ranges::find(pending_reduces_, bucket, &pending_reduce::bucket);
  if (it == pending_reduces_.end())
    throw_usage_error("the sum of bucket " + std::to_string(bucket)
                      + " was requested before a contribution to it");
  return it->done ? it->output : none;
}

std::uint32_t participant::first_incomplete() const {
  return std::ranges::find(pending_reduces_, false, &pending_reduce::done)
    ->bucket;
}

participant::pending_gather& participant::gather_of(std::uint64_t step,
                                                    std::uint32_t bucket) {
  const auto it =
    std::ranges::find_if(pending_gathers_, [&](const pending_gather& c) {
      return c.step == step && c.bucket == bucket;
    });
  if (it != pending_gathers_.end())
    return *it;
  pending_gathers_.push_back({step, bucket, 0, tensors(replicas_)});
  return pending_gathers_.back();
}

bool participant::add(pending_gather& pending, std::uint32_t replica,
                      const tensor& input) {
  pending.inputs[replica] = input;
  return ++pending.count == replicas_;
}

void participant::gather(std::uint32_t bucket, const tensor& input,
                         const collective_options& options) {
  auto& pending = gather_of(step_, bucket);
  if (pending.inputs[replica_])
    throw_usage_error("gather " + std::to_string(bucket)
                      + " was called twice in a step");
  add(pending, replica_, input);
  order_.on_own_call({.is_gather = true,
                      .bucket = bucket,
                      .spec = input.spec(),
                      .options = options});
}

bool participant::on(const gather_contribution& message, const tensor& input) {
  if (message.key.generation != generation_ || message.key.step < step_
      || message.key.replica >= replicas_ || !input)
    return false;
  auto& pending = gather_of(message.key.step, message.key.bucket);
  if (pending.inputs[message.key.replica])
    return false;
  order_.on_gather({message.key.replica, message.key.step, message.key.sequence,
                    true, message.key.bucket, input.spec(),
                    message.key.options});
  return add(pending, message.key.replica, input) && message.key.step == step_;
}

const participant::pending_gather*
participant::find_gather(std::uint32_t bucket) const {
  const auto it =
    std::ranges::find_if(pending_gathers_, [&](const pending_gather& c) {
      return c.step == step_ && c.bucket == bucket;
    });
  return it == pending_gathers_.end() ? nullptr : &*it;
}

const tensors* participant::gathered(std::uint32_t bucket) const {
  const auto* it = find_gather(bucket);
  return it && it->count == replicas_ ? &it->inputs : nullptr;
}

std::vector<std::uint32_t>
participant::missing_in_gather(std::uint32_t bucket) const {
  std::vector<std::uint32_t> out;
  if (const auto* it = find_gather(bucket))
    for (std::uint32_t r = 0; r < replicas_; ++r)
      if (!it->inputs[r])
        out.push_back(r);
  return out;
}

} // namespace troupe::tree
