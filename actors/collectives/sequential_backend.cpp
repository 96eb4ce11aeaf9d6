#include "troupe/actors/collectives/sequential_backend.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace troupe {

// -- sequential_collectives ---------------------------------------------------

void sequential_collectives::begin_step(std::uint64_t generation,
                                        std::uint64_t step) {
  generation_ = generation;
  step_ = step;
}

void sequential_collectives::end_step() {
  sums_.clear();
  gathers_.clear();
  calls_.clear();
  std::ranges::fill(next_call_, 0);
}

/// Compares a call with the first replica's call at the same place of the step.
void sequential_collectives::compare_call(tree::collective_call call) {
  call.step = step_;
  call.sequence = next_call_[call.replica]++;
  if (call.sequence == calls_.size())
    return calls_.push_back(std::move(call));
  const auto difference =
    tree::describe_difference(call, calls_[call.sequence]);
  if (!difference.empty())
    throw std::logic_error(difference);
}

const sequential_collectives::pending_sum*
sequential_collectives::find_sum(std::uint32_t bucket) const {
  const auto it = std::ranges::find(sums_, bucket, &pending_sum::bucket);
  return it == sums_.end() ? nullptr : &*it;
}

const sequential_collectives::pending_gather*
sequential_collectives::find_gather(std::uint32_t bucket) const {
  const auto it = std::ranges::find(gathers_, bucket, &pending_gather::bucket);
  return it == gathers_.end() ? nullptr : &*it;
}

void sequential_collectives::contribute(std::uint32_t bucket,
                                        std::uint32_t replica,
                                        const tensor& contribution,
                                        const collective_options& options) {
  auto it = std::ranges::find(sums_, bucket, &pending_sum::bucket);
  if (it == sums_.end()) {
    sums_.push_back(
      {bucket, tree::reduction{{generation_, step_, bucket, replicas_}}});
    it = std::prev(sums_.end());
  }
  if (it->sum || it->has(replica))
    throw std::logic_error("bucket " + std::to_string(bucket)
                           + " was contributed to twice in a step");
  compare_call({.replica = replica,
                .bucket = bucket,
                .spec = contribution.spec(),
                .options = options});
  ++progress_;
  if (replicas_ == 1) {
    it->sum = contribution;
    return;
  }
  auto reaction = it->reduction.on(
    {{generation_, step_, 0, replica, bucket, 0, 1, options}}, contribution);
  if (std::holds_alternative<tree::reducing>(reaction))
    reaction =
      it->reduction.reduce_some(std::numeric_limits<std::size_t>::max());
  if (const auto* broken = std::get_if<tree::protocol_error>(&reaction))
    throw std::logic_error(broken->reason);
  if (auto* done = std::get_if<tree::finished>(&reaction))
    it->sum = std::move(done->sum);
}

void sequential_collectives::gather(std::uint32_t bucket, std::uint32_t replica,
                                    const tensor& contribution,
                                    const collective_options& options) {
  auto it = std::ranges::find(gathers_, bucket, &pending_gather::bucket);
  if (it == gathers_.end()) {
    gathers_.push_back({bucket, 0, tensors(replicas_)});
    it = std::prev(gathers_.end());
  }
  if (it->contributions[replica])
    throw std::logic_error("gather " + std::to_string(bucket)
                           + " was called twice in a step");
  compare_call({.replica = replica,
                .is_gather = true,
                .bucket = bucket,
                .spec = contribution.spec(),
                .options = options});
  it->contributions[replica] = contribution.clone();
  ++it->arrived;
  ++progress_;
}

const tensor& sequential_collectives::sum_of(std::uint32_t bucket,
                                             std::uint32_t replica) const {
  const auto* sum = find_sum(bucket);
  if (!sum || !(sum->sum || sum->has(replica)))
    throw std::logic_error("the sum of bucket " + std::to_string(bucket)
                           + " was requested before a contribution to it");
  return sum->sum;
}

const tensors* sequential_collectives::gathered(std::uint32_t bucket) const {
  const auto* gather = find_gather(bucket);
  return gather && gather->arrived == replicas_ ? &gather->contributions
                                                : nullptr;
}

std::optional<std::uint32_t>
sequential_collectives::first_incomplete(std::uint32_t replica) const {
  const auto it = std::ranges::find_if(
    sums_, [=](const pending_sum& x) { return !x.sum && x.has(replica); });
  return it == sums_.end() ? std::nullopt : std::optional{it->bucket};
}

std::optional<std::uint32_t>
sequential_collectives::first_incomplete_bucket() const {
  const auto it =
    std::ranges::find_if(sums_, [](const pending_sum& x) { return !x.sum; });
  return it == sums_.end() ? std::nullopt : std::optional{it->bucket};
}

std::vector<std::uint32_t>
sequential_collectives::missing_in_sum(std::uint32_t bucket) const {
  std::vector<std::uint32_t> out;
  const auto* sum = find_sum(bucket);
  for (std::uint32_t r = 0; sum && !sum->sum && r < replicas_; ++r)
    if (!sum->has(r))
      out.push_back(r);
  return out;
}

std::vector<std::uint32_t>
sequential_collectives::missing_in_gather(std::uint32_t bucket) const {
  std::vector<std::uint32_t> out;
  const auto* gather = find_gather(bucket);
  for (std::uint32_t r = 0; gather && r < replicas_; ++r)
    if (!gather->contributions[r])
      out.push_back(r);
  return out;
}

// -- sequential_backend -------------------------------------------------------

collective_backend::wait_status
sequential_backend::wait(const wait_condition& condition, bool) {
  const auto status_of = [](bool holds) {
    return holds ? wait_status::ready : wait_status::pending;
  };
  switch (condition.event) {
    case wait_condition::kind::sum:
      return status_of(bool(shared_->sum_of(condition.bucket, replica_)));
    case wait_condition::kind::gather:
      return status_of(shared_->gathered(condition.bucket) != nullptr);
    default:
      return status_of(!shared_->first_incomplete(replica_));
  }
}

tensors sequential_backend::gathered(std::uint32_t bucket) {
  const auto* all = shared_->gathered(bucket);
  return all ? *all : tensors{};
}

std::vector<std::uint32_t>
sequential_backend::missing(std::uint64_t,
                            const std::optional<wait_condition>& condition) {
  if (condition && condition->event == wait_condition::kind::gather)
    return shared_->missing_in_gather(condition->bucket);
  const auto bucket = shared_->first_incomplete_bucket();
  return bucket ? shared_->missing_in_sum(*bucket)
                : std::vector<std::uint32_t>{};
}

} // namespace troupe
