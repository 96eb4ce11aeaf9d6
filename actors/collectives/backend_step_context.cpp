#include "troupe/actors/collectives/backend_step_context.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

backend_step_context::backend_step_context(
  std::shared_ptr<collective_backend> backend)
  : backend_{std::move(backend)} {}

void backend_step_context::contribute(std::uint32_t bucket,
                                      const tensor& contribution) {
  backend_->contribute(bucket, contribution, options,
                       collective::output_placement::separate);
}

void backend_step_context::contribute_in_place(std::uint32_t bucket,
                                               const tensor& contribution) {
  backend_->contribute(bucket, contribution, options,
                       collective::output_placement::in_place);
}

tensor backend_step_context::sum(std::uint32_t bucket) {
  backend_->sum_of(bucket); // throws if there was no contribution
  tensor total;
  while (!total) { // another replica may leave the step after the wait
    wait_for({wait_condition::kind::sum, bucket});
    total = backend_->sum_of(bucket);
  }
  return total;
}

tensors backend_step_context::gather(std::uint32_t bucket,
                                     const tensor& contribution) {
  backend_->gather(bucket, contribution, options);
  return wait_for_gather({wait_condition::kind::gather, bucket});
}

pooled<std::uint64_t> backend_step_context::barrier(std::uint32_t number,
                                                    std::uint64_t value) {
  tensor own{{}, dtype::int64};
  own.mutable_data<std::int64_t>()[0] = static_cast<std::int64_t>(value);
  backend_->gather(number, own, options);
  const auto all = wait_for_gather(
    {wait_condition::kind::gather, number, /*is_barrier*/ true});
  pooled<std::uint64_t> values;
  values.reserve(all.size());
  for (const auto& one : all)
    values.push_back(static_cast<std::uint64_t>(one.item<std::int64_t>()));
  return values;
}

tensors backend_step_context::wait_for_gather(const wait_condition& condition) {
  tensors gathered;
  while (
    gathered.empty()) { // another replica may leave the step after the wait
    wait_for(condition);
    gathered = backend_->gathered(condition.bucket);
  }
  return gathered;
}

void backend_step_context::begin_update() {
  check_superseded();
  const wait_condition complete{wait_condition::kind::complete};
  if (backend_->wait(complete, false) == wait_status::pending
      && backend_->is_current())
    throw std::logic_error(
      "the update began before the sum of bucket "
      + std::to_string(backend_->first_incomplete().value_or(0))
      + " was complete");
  wait_for(complete);
  // Other processes need their packets, because this step is not undone.
  wait_until_drained();
  on_update_begun();
}

void backend_step_context::wait_until_drained() {
  wait_for(
    {wait_condition::kind::drained, backend_->first_incomplete().value_or(0)});
}

} // namespace troupe
