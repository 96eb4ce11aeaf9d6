#include "troupe/training/loop/exchange/device_exchange.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/training/loop/exchange/update_barriers.hpp"

#include <bit>
#include <utility>

namespace troupe {

device_exchange::device_exchange(model_state& model, const step_rules& rules,
                                 const trained_parameters& trained,
                                 std::size_t sums)
  : model_{model},
    rules_{rules},
    trained_{trained.dense_ranges()},
    sums_{sums},
    update_{model, trained_},
    copies_{model.strategy->tensor_device()},
    steps_(model.model_parameters.replicas()),
    results_(steps_.size()),
    metrics_(steps_.size()) {}

void device_exchange::begin_without_examples(const replica_step& step) {
  const auto gradient = model_.model_parameters.gradients(step.index);
  for (const auto& one : trained_)
    gradient.range(one.begin, one.end).set_zero();
}

/// A schedule is user code, which need not return the same on each replica; so
/// the rate of replica 0 is used.
float device_exchange::wait_for_gradients(step_context& step) {
  const auto rate = rules_.learning_rate(step.step);
  if (step.replica == 0) {
    // No replica is in `update` now. This replica has passed the second barrier
    // of the last step, or a new generation has begun. For the latter, all
    // replicas have left their steps.
    const std::lock_guard hold{lock_};
    is_made_ = false;
  }
  if (step.replicas == 1)
    return rate;
  const auto rates =
    step.barrier(gradients_complete, std::bit_cast<std::uint32_t>(rate));
  return std::bit_cast<float>(static_cast<std::uint32_t>(rates[0]));
}

gradient_exchange::outcome device_exchange::update(const replica_step& step) {
  auto& context = *step.context;
  steps_[step.index] = &step;
  const auto rate = wait_for_gradients(context);
  context.begin_update();
  const std::lock_guard hold{lock_};
  if (!std::exchange(is_made_, true))
    make_update(step, rate);
  if (failure_)
    std::rethrow_exception(failure_);
  context.report = metrics_[step.index];
  return {.is_finite = is_finite_, .metrics = metrics_, .error = error_};
}

void device_exchange::make_update(const replica_step& step, float rate) {
  failure_ = error_ = nullptr;
  is_finite_ = true;
  for (auto& one : metrics_)
    one.reset(sums_);
  if (step.examples == 0)
    return;
  tensor is_skipped;
  try {
    update_.begin();
    for (std::size_t r = 0; r < steps_.size(); ++r) {
      const auto& [losses, outputs] = steps_[r]->computed;
      results_[r] = {};
      if (!losses)
        continue;
      update_.check(losses);
      results_[r] = {copies_.start(losses), copies_.start(outputs)};
    }
    update_.add_gradients();
    is_skipped = copies_.start(update_.is_skipped());
    copies_.record();
    update_.apply(rules_.at(step.context->step, step.examples, rate));
  } catch (...) {
    failure_ = std::current_exception();
    return;
  }
  try {
    copies_.wait();
  } catch (const device_error&) {
    failure_ = std::current_exception();
    return;
  } catch (...) { // an invalid label or id, perhaps of another model
    error_ = std::current_exception();
  }
  is_finite_ = is_skipped.data<std::int32_t>()[0] == 0;
  if (!error_)
    report();
  if (!is_finite_)
    failure_ = std::exchange(error_, nullptr);
}

void device_exchange::report() {
  try {
    for (std::size_t r = 0; r < steps_.size(); ++r)
      if (results_[r].losses)
        steps_[r]->report(std::exchange(results_[r], {}), metrics_[r]);
  } catch (...) { // of a metric
    error_ = std::current_exception();
  }
}

void device_exchange::end(const replica_step& step,
                          std::uint64_t /*steps_done*/, bool /*is_stopped*/) {
  if (step.context->replicas > 1)
    step.context->barrier(update_complete, 0);
}

} // namespace troupe
