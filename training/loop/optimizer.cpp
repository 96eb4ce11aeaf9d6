#include "troupe/training/loop/optimizer.hpp"

#include "troupe/training/loop/model_state.hpp"
#include "troupe/training/strategies/strategy.hpp"
#include "troupe/training/strategies/strategy_state.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_map>

namespace troupe {

namespace {

/// State of the update rule for one copy of the variables.
struct copy_state {
  /// Slots of the update rule, by variable id. Empty for a model's optimizer.
  std::unordered_map<std::uint32_t, std::array<tensor, 2>> slots;
  std::uint64_t updates = 0; ///< Updates that `take_updates` has not returned.
};

} // namespace

struct optimizer::impl {
  model_state* model; ///< Null: the optimizer has a state of its own.
  update_rule own_rule;
  strategy made_in;
  std::vector<copy_state> copies;
  /// Calls of `apply` by each replica, since `take_updates`.
  std::vector<std::uint64_t> calls;
  /// Index of each variable of `model`, by variable id.
  std::unordered_map<std::uint32_t, std::size_t> indices;

  impl(const update_rule& rule, strategy in, model_state* of)
    : model{of},
      own_rule{rule},
      made_in{std::move(in)},
      copies(made_in.state()->copies),
      calls(made_in.local_replica_ids().size()) {
    for (std::size_t i = 0; model && i < model->variables().size(); ++i)
      indices[model->variables()[i].id()] = i;
  }

  update_rule& rule() { return model ? model->rule : own_rule; }
  std::uint64_t taken_updates() const { return model ? model->steps : 0; }

  std::uint64_t updates() const {
    std::uint64_t most = 0;
    for (const auto& one : copies)
      most = std::max(most, one.updates);
    return most;
  }

  /// Throws if the variable has another number of copies or replicas than the
  /// optimizer, or is the variable of another model.
  void check(const variable& x) const {
    if (x.copies() != copies.size() || x.replicas() != calls.size())
      throw std::logic_error(
        "the variable " + x.name() + " was not constructed in the scope of the "
        + made_in.name()
        + " strategy, which runs the optimizer; construct its "
          "model there");
    if (model && !indices.contains(x.id()))
      throw std::logic_error("the variable " + x.name()
                             + " does not belong to the model \""
                             + model->net.name()
                             + "\", whose optimizer got it; use the optimizer "
                               "of the variable's model");
  }

  /// Returns the slots of a variable in one copy.
  std::array<std::span<float>, 2> slots_of(std::size_t copy,
                                           const variable& parameter) {
    std::array<std::span<float>, 2> ranges;
    if (model) {
      const auto begin =
        model->model_parameters.offset(indices.at(parameter.id()));
      for (std::size_t s = 0; s < rule().slots(); ++s)
        ranges[s] = model->slots[copy][s].mutable_data<float>().subspan(
          begin, static_cast<std::size_t>(parameter.dims().elements()));
      return ranges;
    }
    auto [entry, is_new] = copies[copy].slots.try_emplace(parameter.id());
    for (std::size_t s = 0; s < rule().slots(); ++s) {
      if (is_new)
        entry->second[s] = tensor::zeros(parameter.dims());
      ranges[s] = entry->second[s].mutable_data<float>();
    }
    return ranges;
  }
};

optimizer::optimizer(const update_rule& rule)
  : impl_{std::make_unique<impl>(rule, get_strategy(), nullptr)} {}
optimizer::optimizer(model_state& model)
  : impl_{
    std::make_unique<impl>(model.rule, strategy{model.strategy}, &model)} {}
optimizer::~optimizer() = default;

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
  const auto index = impl_->copies.size() == 1 ? 0 : id;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    impl_->check(variables[i]);
    if (const auto value = variables[i].value().spec();
        gradients[i].dims() != value.dims)
      throw std::logic_error("a gradient " + to_string(gradients[i].spec())
                             + " for the variable " + variables[i].name() + " "
                             + to_string(value));
  }
  auto& copy = impl_->copies[index];
  if (++impl_->calls[id] <= copy.updates)
    return; // Another replica has already made this update of the shared copy.
  ++copy.updates;
  const auto step = impl_->taken_updates() + copy.updates;
  const auto& rule = impl_->rule();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    auto value = variables[i].value();
    const auto slots = impl_->slots_of(index, variables[i]);
    rule.apply(value.mutable_data<float>(), gradients[i].data<float>(),
               std::span{slots}.first(rule.slots()), step,
               rule.learning_rate());
  }
}

const update_rule& optimizer::rule() const {
  return impl_->rule();
}

float optimizer::learning_rate() const {
  return impl_->rule().learning_rate();
}

void optimizer::set_learning_rate(float x) {
  impl_->rule().set_learning_rate(x);
}

std::uint64_t optimizer::steps() const {
  return impl_->taken_updates() + impl_->updates();
}

std::uint64_t optimizer::take_updates() {
  const auto updates = impl_->updates();
  for (auto& one : impl_->copies)
    one.updates = 0;
  std::ranges::fill(impl_->calls, 0);
  return updates;
}

} // namespace troupe
