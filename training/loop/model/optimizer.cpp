#include "troupe/training/loop/model/optimizer.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/model/shared_apply.hpp"
#include "troupe/training/loop/model/update_target.hpp"
#include "troupe/training/strategies/calls/step_callback.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/strategies/strategy.hpp"
#include "troupe/training/support/describe_model.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <stdexcept>
#include <unordered_map>

namespace troupe {

namespace {

using slots_by_id = std::unordered_map<std::uint32_t, std::array<tensor, 2>>;

/// State of the update rule for one copy of the variables.
struct copy_state {
  /// Slots of the update rule, by variable id. Empty for a model's optimizer.
  slots_by_id slots;
  /// Updates that `take_updates` has not returned.
  std::atomic<std::uint64_t> updates = 0;
};

} // namespace

struct optimizer::impl final : placement_observer {
  model_state* model; ///< Null: the optimizer has a state of its own.
  update_rule own_rule;
  strategy made_in;
  std::deque<copy_state> copies;
  std::size_t replicas; ///< Replicas of this process.
  /// Nullopt: each replica has a copy of its own.
  std::optional<shared_apply> shared;
  /// Index of each variable of `model`, by variable id.
  std::unordered_map<std::uint32_t, std::size_t> indices;
  /// State of the first copy at the last `keep_state`.
  slots_by_id kept_slots;
  std::uint64_t kept_updates = 0;

  impl(const update_rule& rule, strategy in, model_state* of)
    : model{of},
      own_rule{rule},
      made_in{std::move(in)},
      copies(made_in.state()->copies),
      replicas{made_in.local_replica_ids().size()} {
    if (copies.size() == 1 && replicas > 1)
      shared.emplace(static_cast<std::uint32_t>(replicas));
    for (std::size_t i = 0; model && i < model->variables().size(); ++i)
      indices[model->variables()[i].id()] = i;
  }

  update_rule& rule() { return model ? model->rule : own_rule; }
  std::uint64_t taken_updates() const { return model ? model->steps : 0; }

  std::uint64_t updates() const {
    std::uint64_t most = 0;
    for (const auto& one : copies)
      most = std::max<std::uint64_t>(most, one.updates);
    return most;
  }

  /// Throws if the variable has another number of copies or replicas than the
  /// optimizer, or is the variable of another model.
  void check(const variable& x) const {
    if (x.copies() != copies.size() || x.replicas() != replicas)
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

  /// Throws if a variable is listed twice.
  static void check_distinct(std::span<const variable> variables) {
    for (std::size_t i = 0; i < variables.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (variables[i].id() == variables[j].id())
          throw std::logic_error("an optimizer got the variable "
                                 + variables[i].name()
                                 + " twice in one call; list it once");
  }

  /// Returns a slot as it is before the first step.
  tensor new_slot(std::size_t slot, const shape& dims, const device& where) {
    return tensor::full(dims, rule().initial_slot_value(slot), dtype::float32,
                        where);
  }

  /// Makes the slots of a variable that has none yet, in one copy.
  void make_slots(std::size_t copy, std::uint32_t variable_id,
                  const shape& dims) {
    if (model)
      return;
    const sharing_scope slots_are_not_contributed{false};
    auto [entry, is_new] = copies[copy].slots.try_emplace(variable_id);
    for (std::size_t s = 0; is_new && s < rule().slots(); ++s)
      entry->second[s] = new_slot(s, dims, made_in.state()->device_of(copy));
  }

  /// Returns a variable of a copy with its slots.
  update_target target(std::size_t copy, const variable& parameter) {
    std::array<tensor, 2> slots;
    const auto n = rule().slots();
    for (std::size_t s = 0; s < n; ++s)
      slots[s] = slot(copy, s, parameter);
    return {parameter.value(), std::span{slots}.first(n)};
  }

  /// Returns a slot of a variable, [elements].
  tensor slot(std::size_t copy, std::size_t s, const variable& parameter) {
    const auto n = parameter.dims().elements();
    if (!model)
      return copies[copy].slots.at(parameter.id())[s];
    const auto begin =
      model->model_parameters.offset(indices.at(parameter.id()));
    return model->slots[copy][s].range(begin, begin + n);
  }

  rule_step step_at(std::uint64_t update) {
    return rule().step_at(taken_updates() + update, rule().learning_rate());
  }

  void grow(std::size_t new_copies, std::size_t new_replicas);
  void broadcast_first_copy();

  void on_new_placement() override;
  void keep_state() override;
  void restore_state() override;
  std::string state_text() override;
  std::vector<tensor> state_tensors(const std::string& text) override;
  void on_copied(const std::string& text) override;
  std::string description() const override {
    return "optimizer: " + describe_rule(model ? model->rule : own_rule) + '\n';
  }

  void apply_to_copy(std::size_t copy,
                     std::span<const parameter_gradient> gradients,
                     std::span<const variable> variables);
  void apply_together(replica_context& self,
                      std::span<const parameter_gradient> gradients,
                      std::span<const variable> variables);
};

namespace {

/// Updates the rows of a sparse gradient that have the elements [begin, end).
/// @param from elements of the rows, on the device of the variable.
void update_rows(const rule_step& rule, const update_target& into,
                 const sparse_rows& gradient, const float* from,
                 std::size_t begin, std::size_t end) {
  const auto rows = gradient.indices().data<std::int64_t>();
  const auto size = gradient.row_size();
  for (auto i = begin; i < end;) {
    const auto in_row = i % size;
    const auto n = std::min(size - in_row, end - i);
    const auto row = static_cast<std::size_t>(rows[i / size]);
    into.update(rule, row * size + in_row, from + i, n);
    i += n;
  }
}

/// Updates what belongs to the elements [begin, end) of a gradient. Those of a
/// sparse gradient are the elements of its rows. On a device, the range has all
/// of them.
void update_range(const rule_step& rule, const update_target& into,
                  const parameter_gradient& gradient, std::size_t begin,
                  std::size_t end) {
  const auto elements = gradient.elements().to(into.on());
  if (gradient.is_sparse() && into.on().kind != device_kind::cpu)
    return into.update_rows(
      rule, {gradient.dims(), gradient.rows().indices(), elements});
  const auto* const from = reinterpret_cast<const float*>(elements.address());
  const auto update = [&](std::size_t first, std::size_t last) {
    if (gradient.is_sparse())
      update_rows(rule, into, gradient.rows(), from, first, last);
    else
      into.update(rule, first, from + first, last - first);
  };
  if (into.on().kind != device_kind::cpu)
    return update(begin, end);
  for_elements(end - begin, [&](std::size_t first, std::size_t last) {
    update(begin + first, begin + last);
  });
}

} // namespace

/// Updates the copy that only the calling replica uses.
void optimizer::impl::apply_to_copy(
  std::size_t copy, std::span<const parameter_gradient> gradients,
  std::span<const variable> variables) {
  const flush_denormals flushing;
  const auto update = step_at(++copies[copy].updates);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    make_slots(copy, variables[i].id(), variables[i].dims());
    update_range(update, target(copy, variables[i]), gradients[i], 0,
                 gradients[i].elements().size());
  }
}

/// Updates the copy that all replicas share, together with the other replicas.
void optimizer::impl::apply_together(
  replica_context& self, std::span<const parameter_gradient> gradients,
  std::span<const variable> variables) {
  // No replica changes the number between the barriers of two calls, so all
  // replicas read the same.
  const auto number = copies[0].updates + 1;
  pooled<element_range> ranges;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    float_address(variables[i].value()); // checks that no tape needs it
    ranges.push_back({0, gradients[i].elements().size()});
    if (self.replica_id() == 0) // while the other replicas read no slot
      make_slots(0, variables[i].id(), variables[i].dims());
  }
  shared->wait_for_gradients(self, gradients, variables);
  const flush_denormals flushing;
  copies[0].updates = number;
  const auto update = step_at(number);
  pooled<update_target> targets;
  for (const auto& x : variables)
    targets.push_back(target(0, x));
  shared->for_each_slice(
    ranges,
    made_in.state()->tensor_device().kind == device_kind::cpu
      ? slice_elements(made_in.threads())
      : whole_ranges,
    [&](std::size_t i, std::size_t begin, std::size_t end) {
      update_range(update, targets[i], gradients[i], begin, end);
    });
  shared->wait_for_end(self);
}

// -- changes of the job's view ------------------------------------------------

namespace {

/// State of an optimizer without its tensors.
struct described_state {
  std::uint64_t updates = 0;
  float learning_rate = 0;
  /// Variables that have slots, by index in `strategy_state::variables`.
  std::vector<std::uint64_t> with_slots;
};

/// @param variables number of variables of the strategy.
described_state read_state(const std::string& text, std::size_t variables) {
  described_state out;
  if (!decode_text(text, out.updates, out.learning_rate, out.with_slots)
      || std::ranges::any_of(out.with_slots,
                             [&](auto index) { return index >= variables; }))
    throw job_error(ec::protocol,
                    "a worker sent a malformed state of an optimizer");
  return out;
}

} // namespace

void optimizer::impl::grow(std::size_t new_copies, std::size_t new_replicas) {
  replicas = std::max(replicas, new_replicas);
  while (copies.size() < new_copies)
    copies.emplace_back();
  broadcast_first_copy(); // a copy that was not used for some views is old
}

/// Makes all copies equal to the first one.
void optimizer::impl::broadcast_first_copy() {
  for (std::size_t c = 1; c < copies.size(); ++c) {
    copies[c].updates = copies[0].updates.load();
    for (const auto& [id, slots] : copies[0].slots)
      for (std::size_t s = 0; s < rule().slots(); ++s) {
        make_slots(c, id, slots[s].dims());
        copies[c].slots.at(id)[s].copy_from(slots[s]);
      }
  }
}

void optimizer::impl::on_new_placement() {
  const auto& state = *made_in.state();
  grow(state.copies, state.placement.count());
}

void optimizer::impl::keep_state() {
  kept_updates = copies[0].updates;
  const sharing_scope copies_are_not_contributed{false};
  for (const auto& [id, slots] : copies[0].slots)
    for (std::size_t s = 0; s < rule().slots(); ++s) {
      auto& kept = kept_slots[id][s];
      if (kept)
        kept.copy_from(slots[s]);
      else
        kept = slots[s].clone();
    }
}

void optimizer::impl::restore_state() {
  copies[0].updates = kept_updates;
  // The slots that the step has made in any copy are as before the first step.
  for (auto& copy : copies)
    for (auto& [id, slots] : copy.slots)
      for (std::size_t s = 0; s < rule().slots(); ++s)
        slots[s].copy_from(kept_slots.contains(id)
                             ? kept_slots.at(id)[s]
                             : new_slot(s, slots[s].dims(), {}));
  broadcast_first_copy();
}

/// In the order of the variables, which is equal in all processes.
std::string optimizer::impl::state_text() {
  const auto& known = made_in.state()->variables;
  std::vector<std::uint64_t> with_slots;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (copies[0].slots.contains(known[i].id))
      with_slots.push_back(i);
  return encode_text(copies[0].updates.load(), rule().learning_rate(),
                     with_slots);
}

std::vector<tensor> optimizer::impl::state_tensors(const std::string& text) {
  const auto& known = made_in.state()->variables;
  std::vector<tensor> out;
  for (const auto index : read_state(text, known.size()).with_slots) {
    const auto& [id, dims] = known[index];
    make_slots(0, id, dims);
    for (std::size_t s = 0; s < rule().slots(); ++s)
      out.push_back(copies[0].slots.at(id)[s]);
  }
  return out;
}

void optimizer::impl::on_copied(const std::string& text) {
  const auto state = read_state(text, made_in.state()->variables.size());
  copies[0].updates = state.updates;
  rule().set_learning_rate(state.learning_rate);
  broadcast_first_copy();
}

// -- optimizer ----------------------------------------------------------------

/// The strategy observes an optimizer that a program constructs, unless a
/// replica's function does.
optimizer::optimizer(const update_rule& rule)
  : impl_{std::make_shared<impl>(rule, get_strategy(), nullptr)} {
  const auto& state = impl_->made_in.state();
  const auto* scope = current_execution_scope();
  if (state->has_copies() && !(scope && scope->replica))
    state->observe(impl_);
}
optimizer::optimizer(model_state& model)
  : impl_{
    std::make_shared<impl>(model.rule, strategy{model.strategy}, &model)} {}
optimizer::~optimizer() = default;

void optimizer::apply(std::span<const tensor> gradients,
                      std::span<const variable> variables) {
  const pooled<parameter_gradient> list(gradients.begin(), gradients.end());
  apply(std::span{list}, variables);
}

void optimizer::apply(std::span<const parameter_gradient> gradients,
                      std::span<const variable> variables) {
  auto* replica = get_replica_context();
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
  for (std::size_t i = 0; i < variables.size(); ++i) {
    impl_->check(variables[i]);
    if (const auto value = variables[i].value().spec();
        gradients[i].dims() != value.dims || gradients[i].type() != value.type)
      throw std::logic_error(
        "a gradient "
        + to_string(tensor_spec{gradients[i].dims(), gradients[i].type()})
        + " for the variable " + variables[i].name() + " " + to_string(value));
  }
  impl::check_distinct(variables);
  if (impl_->shared)
    return impl_->apply_together(*replica, gradients, variables);
  const auto index =
    impl_->made_in.state()->placement.job.index_of(replica->replica_id());
  impl_->apply_to_copy(impl_->copies.size() == 1 ? 0 : index, gradients,
                       variables);
}

const update_rule& optimizer::rule() const {
  return impl_->rule();
}

float optimizer::learning_rate() const {
  return impl_->rule().learning_rate();
}

void optimizer::set_learning_rate(float x) {
  if (impl_->model)
    check_no_step_callback_of(*impl_->model->strategy, impl_->model,
                              "set_learning_rate");
  impl_->rule().set_learning_rate(x);
}

std::uint64_t optimizer::steps() const {
  return impl_->taken_updates() + impl_->updates();
}

void optimizer::grow(std::size_t copies, std::size_t replicas) {
  impl_->grow(copies, replicas);
}

void optimizer::keep_state() {
  impl_->keep_state();
}

void optimizer::restore_state() {
  impl_->restore_state();
}

std::string optimizer::state_text() const {
  return impl_->state_text();
}

void optimizer::on_copied(const std::string& text) {
  impl_->on_copied(text);
}

std::uint64_t optimizer::take_updates() {
  const auto updates = impl_->updates();
  for (auto& one : impl_->copies)
    one.updates = 0;
  return updates;
}

} // namespace troupe
