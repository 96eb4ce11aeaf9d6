#include "troupe/training/loop/exchange/shared_update.hpp"

#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/training/loop/exchange/update_barriers.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <stdexcept>

namespace troupe {

namespace {

constexpr float greatest = std::numeric_limits<float>::max();

/// Returns true if an element exceeds `limit` in magnitude or is NaN.
bool any_exceeds(const float* x, std::size_t n, float limit) {
  std::atomic<bool> found = false;
  for_elements(n, [&](std::size_t begin, std::size_t end) {
    if (kernels().any_exceeds(x + begin, end - begin, limit))
      found = true;
  });
  return found;
}

} // namespace

shared_update::shared_update(model_state& model,
                             std::vector<element_range> trained,
                             std::vector<std::size_t> tables)
  : trained_{std::move(trained)},
    slice_elements_{slice_elements(model.strategy->threads)},
    values_{model.model_parameters.values().mutable_data<float>().data()} {
  if (model.model_parameters.copies() != 1)
    throw std::logic_error("a shared update of "
                           + std::to_string(model.model_parameters.copies())
                           + " copies of the parameters");
  for (std::uint32_t r = 0; r < model.model_parameters.replicas(); ++r) {
    gradients_.push_back(model.model_parameters.gradients(r));
    sources_.push_back(gradients_.back().data<float>().data());
  }
  for (std::size_t s = 0; s < model.rule.slots(); ++s)
    slots_[s] = model.slots[0][s].mutable_data<float>().data();
  if (!tables.empty())
    tables_ = std::make_unique<table_update>(model, std::move(tables));
}

float shared_update::max_element() const {
  // The factor 2 leaves room for the rounding of the partial sums.
  return greatest / (2 * static_cast<float>(gradients_.size()));
}

shared_update::agreement
shared_update::wait_for_gradients(step_context& step, gradient_state own,
                                  float learning_rate) {
  // No replica claims slices now. This replica has returned from the last
  // `wait_for_end`, so all have called it. Or a new generation has begun, for
  // which all replicas have left their steps.
  if (step.replica == 0) {
    slices_.reset();
    if (tables_)
      tables_->reset();
  }
  auto worst = own;
  if (step.replicas > 1) {
    const auto own_rate = std::bit_cast<std::uint32_t>(learning_rate);
    const auto values =
      step.barrier(gradients_complete, static_cast<std::uint64_t>(own)
                                         | std::uint64_t{own_rate} << 32);
    for (const auto one : values)
      worst = std::max(worst, static_cast<gradient_state>(one & 0xff));
    learning_rate =
      std::bit_cast<float>(static_cast<std::uint32_t>(values[0] >> 32));
  }
  step.begin_update();
  return {worst == gradient_state::finite_sums
            || (worst == gradient_state::unknown && sums_are_finite()
                && (!tables_ || tables_->sums_are_finite())),
          learning_rate};
}

void shared_update::wait_for_end(step_context& step) {
  if (step.replicas > 1)
    step.barrier(update_complete, 0);
}

bool shared_update::part_has_finite_sums(const tensor& gradient,
                                         const element_range& part) const {
  return !any_exceeds(gradient.data<float>().data() + part.begin,
                      part.end - part.begin, max_element());
}

/// Each replica checks all sums, because large gradients are rare.
bool shared_update::sums_are_finite() {
  const auto leaf = [&](std::size_t a, std::size_t b) {
    return b - a == 1 ? sources_[a] : nullptr;
  };
  alignas(64) float sum[tree::block];
  for (const auto& [begin, end] : trained_)
    for (auto at = begin; at < end; at += tree::block) {
      const auto n = std::min(tree::block, end - at);
      if (kernels().any_exceeds(
            tree::fold(0, sources_.size(), at, n, sum, leaf), n, greatest))
        return false;
    }
  return true;
}

void shared_update::apply(const rule_step& update) noexcept {
  const flush_denormals flushing;
  const auto leaf = [&](std::size_t a, std::size_t b) {
    return b - a == 1 ? sources_[a] : nullptr;
  };
  const auto update_range = [&](std::size_t begin, std::size_t end) {
    alignas(64) float sum[tree::block];
    for (auto at = begin; at < end; at += tree::block) {
      const auto n = std::min(tree::block, end - at);
      const auto* gradient = tree::fold(0, sources_.size(), at, n, sum, leaf);
      std::array<float*, 2> slots{};
      for (std::size_t s = 0; s < slots.size(); ++s)
        slots[s] = slots_[s] ? slots_[s] + at : nullptr;
      update(values_ + at, gradient, slots, n);
    }
  };
  slices_.for_each(trained_, slice_elements_,
                   [&](std::size_t, std::size_t begin, std::size_t end) {
                     for_ranges(
                       end - begin, end - begin,
                       [&](std::size_t first, std::size_t last) {
                         update_range(begin + first, begin + last);
                       },
                       tree::block);
                   });
}

} // namespace troupe
