#include "troupe/actors/collectives/nccl/device_sum_backend.hpp"

#include "troupe/actors/collectives/tensor_message.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

device_sum_backend::device_sum_backend(std::shared_ptr<collective_backend> host,
                                       std::shared_ptr<nccl_rank> rank,
                                       std::uint32_t replica)
  : host_{std::move(host)},
    rank_{std::move(rank)},
    devices_{rank_->collectives(), replica, rank_->compute()} {}

// -- generations and steps ----------------------------------------------------

void device_sum_backend::begin_generation(std::uint64_t generation) {
  host_->begin_generation(generation);
  generation_ = generation;
  has_joined_ = false;
}

void device_sum_backend::begin_step(std::uint64_t step) {
  host_->begin_step(step);
  step_ = step;
  device_buckets_.clear();
  has_open_sums_ = false;
  if (has_joined_)
    devices_.begin_step(step);
}

void device_sum_backend::end_step() {
  host_->end_step();
  if (has_joined_)
    devices_.end_step();
}

bool device_sum_backend::is_current() const {
  return host_->is_current() && (!has_joined_ || devices_.is_current());
}

/// Takes part in the communicator of the generation, in the middle of a step.
void device_sum_backend::join_generation() {
  if (std::exchange(has_joined_, true))
    return;
  devices_.begin_generation(generation_);
  devices_.begin_step(step_);
}

// -- contributions ------------------------------------------------------------

bool device_sum_backend::is_on_device(std::uint32_t bucket) const {
  return std::ranges::find(device_buckets_, bucket) != device_buckets_.end();
}

void device_sum_backend::contribute(std::uint32_t bucket,
                                    const tensor& contribution,
                                    const collective_options& options,
                                    collective::output_placement output) {
  if (contribution.device().kind == device_kind::cpu)
    return host_->contribute(bucket, contribution, options, output);
  join_generation();
  if (!is_on_device(bucket)) // else the call throws
    device_buckets_.push_back(bucket);
  has_open_sums_ = true;
  devices_.contribute(bucket, contribution, options, output);
}

void device_sum_backend::gather(std::uint32_t bucket,
                                const tensor& contribution,
                                const collective_options& options) {
  host_->gather(bucket, contribution, options);
}

// -- waiting ------------------------------------------------------------------

device_sum_backend::wait_status
device_sum_backend::wait(const wait_condition& condition, bool blocking) {
  if (!has_joined_)
    return host_->wait(condition, blocking);
  switch (condition.event) {
    case wait_condition::kind::sum:
      return is_on_device(condition.bucket)
               ? wait_for_device_sum(condition, blocking)
               : wait_for_host(condition, blocking);
    case wait_condition::kind::gather:
      return wait_for_host(condition, blocking);
    default:
      return wait_for_all(condition, blocking);
  }
}

/// NCCL does not know that a peer is lost; lanes do.
device_sum_backend::wait_status
device_sum_backend::wait_for_device_sum(const wait_condition& condition,
                                        bool blocking) {
  rank_->collectives()->start_groups();
  const auto status = devices_.wait(condition, blocking);
  if (status != wait_status::pending)
    return status;
  has_open_sums_ = true; // again, if NCCL has failed since the last look
  host_->wait({wait_condition::kind::complete}, false); // makes progress
  return host_->last_failure() ? wait_status::failed : wait_status::pending;
}

/// Waits for a collective of the host. While sums on devices are incomplete,
/// the thread does not sleep there, since those sums need calls too. The host
/// then sends no message either, also if the sums are complete afterwards.
device_sum_backend::wait_status
device_sum_backend::wait_for_host(const wait_condition& condition,
                                  bool blocking) {
  const wait_condition all{wait_condition::kind::complete};
  has_open_sums_ = devices_.wait(all, false) == wait_status::pending;
  const auto status = host_->wait(condition, blocking && !has_open_sums_);
  if (status == wait_status::pending && devices_.last_failure())
    return wait_status::failed;
  if (status == wait_status::pending && blocking && has_open_sums_)
    devices_.wait(all, true);
  return status;
}

device_sum_backend::wait_status
device_sum_backend::wait_for_all(const wait_condition& condition,
                                 bool blocking) {
  const auto of_host = wait_for_host(condition, blocking);
  if (of_host != wait_status::ready)
    return of_host;
  return wait_for_device_sum({wait_condition::kind::complete}, blocking);
}

std::optional<collective_backend::failure> device_sum_backend::last_failure() {
  if (auto of_host = host_->last_failure())
    return of_host;
  return has_joined_ ? devices_.last_failure() : std::nullopt;
}

// -- results ------------------------------------------------------------------

tensor device_sum_backend::sum_of(std::uint32_t bucket) {
  return is_on_device(bucket) ? devices_.sum_of(bucket) : host_->sum_of(bucket);
}

tensors device_sum_backend::gathered(std::uint32_t bucket) {
  return host_->gathered(bucket);
}

std::optional<std::uint32_t> device_sum_backend::first_incomplete() {
  const auto on_device =
    has_joined_ ? devices_.first_incomplete() : std::nullopt;
  return on_device ? on_device : host_->first_incomplete();
}

std::vector<std::uint32_t>
device_sum_backend::missing(std::uint64_t step,
                            const std::optional<wait_condition>& condition) {
  // Lanes know which process they wait for.
  auto out = host_->missing(step, condition);
  if (out.empty() && has_joined_)
    out = devices_.missing(step, condition);
  return out;
}

// -- work for other replicas --------------------------------------------------

void device_sum_backend::deliver(tensor_message&& message) {
  host_->deliver(std::move(message));
}

} // namespace troupe
