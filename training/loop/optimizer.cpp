#include "troupe/training/loop/optimizer.hpp"

#include "troupe/training/strategies/strategy.hpp"
#include "troupe/training/strategies/strategy_state.hpp"

#include <array>
#include <stdexcept>
#include <unordered_map>

namespace troupe {

namespace {

/// State of the update rule for one copy of the variables.
struct copy_state {
  /// Slots of the update rule, by variable id.
  std::unordered_map<std::uint32_t, std::array<tensor, 2>> slots;
  std::uint64_t steps = 0;
};

} // namespace

struct optimizer::impl {
  update_rule rule;
  strategy made_in;
  float rate;
  std::vector<copy_state> copies;
  std::vector<std::uint64_t> calls; ///< Calls of `apply` by each replica.

  impl(const update_rule& rule, strategy in)
    : rule{rule},
      made_in{std::move(in)},
      rate{rule.learning_rate()},
      copies(made_in.state()->copies),
      calls(made_in.local_replica_ids().size()) {}

  /// Throws if the variable has another number of copies or replicas than the
  /// optimizer.
  void check(const variable& x) const {
    if (x.copies() != copies.size() || x.replicas() != calls.size())
      throw std::logic_error(
        "the variable " + x.name() + " was not constructed in the scope of the "
        + made_in.name()
        + " strategy, which runs the optimizer; construct its "
          "model there");
  }

  std::array<tensor, 2>& slots_of(copy_state& copy, const variable& parameter) {
    auto [entry, is_new] = copy.slots.try_emplace(parameter.id());
    for (std::size_t s = 0; is_new && s < rule.slots(); ++s)
      entry->second[s] = tensor::zeros(parameter.dims());
    return entry->second;
  }
};

optimizer::optimizer(const update_rule& rule)
  : impl_{std::make_unique<impl>(rule, get_strategy())} {}
optimizer::~optimizer() = default;
optimizer::optimizer(optimizer&&) noexcept = default;
optimizer& optimizer::operator=(optimizer&&) noexcept = default;

void optimizer::apply(std::span<const tensor> gradients,
                      std::span<const variable> variables) {
  const auto* replica = get_replica_context();
  if (!replica)
    throw std::logic_error("an optimizer was applied in cross-replica context; "
                           "apply it in the function that run() calls");
  if (get_strategy() != impl_->made_in)
    throw std::logic_error("an optimizer of the " + impl_->made_in.name()
                           + " strategy was applied in a run of another, the "
                           + get_strategy().name() + " strategy");
  if (gradients.size() != variables.size())
    throw std::logic_error(std::to_string(gradients.size()) + " gradients for "
                           + std::to_string(variables.size()) + " variables");
  const auto id =
    impl_->made_in.state()->placement.job.index_of(replica->replica_id());
  auto& copy = impl_->copies[impl_->copies.size() == 1 ? 0 : id];
  if (++impl_->calls[id] <= copy.steps)
    return; // Another replica has already made this update of the shared copy.
  ++copy.steps;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    impl_->check(variables[i]);
    auto value = variables[i].value();
    if (gradients[i].dims() != value.dims())
      throw std::logic_error("a gradient " + to_string(gradients[i].spec())
                             + " for the variable " + variables[i].name() + " "
                             + to_string(value.spec()));
    auto& slots = impl_->slots_of(copy, variables[i]);
    std::array<std::span<float>, 2> ranges;
    for (std::size_t s = 0; s < impl_->rule.slots(); ++s)
      ranges[s] = slots[s].mutable_data<float>();
    impl_->rule.apply(value.mutable_data<float>(), gradients[i].data<float>(),
                      std::span{ranges}.first(impl_->rule.slots()), copy.steps,
                      impl_->rate);
  }
}

float optimizer::learning_rate() const {
  return impl_->rate;
}

void optimizer::set_learning_rate(float x) {
  impl_->rate = x;
}

} // namespace troupe
