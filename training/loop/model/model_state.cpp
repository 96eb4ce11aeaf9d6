#include "troupe/training/loop/model/model_state.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/training/loop/model/fit_checks.hpp"
#include "troupe/training/loop/model/fit_position_text.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/step_callback.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/support/describe_model.hpp"
#include "troupe/training/support/resident_tensor.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

model_state::model_state(const models::model_description& architecture,
                         const update_rule& update, const models::loss& loss,
                         std::uint64_t seed,
                         std::shared_ptr<strategy_state> owner,
                         models::precision precision)
  : strategy{std::move(owner)},
    net{architecture, precision},
    rule{update},
    loss{&loss},
    seed{seed},
    model_parameters{net.parameters(), strategy->copies,
                     std::max(strategy->placement.count(), 1u),
                     strategy->tensor_devices()},
    loop_optimizer{*this} {
  if (strategy->spans_processes())
    for (const auto& x : variables())
      strategy->variables.push_back({x.id(), x.dims()});
  const sharing_scope slots_are_not_contributed{false};
  for (std::uint32_t copy = 0; copy < model_parameters.copies(); ++copy) {
    auto& mine = slots.emplace_back();
    for (std::size_t s = 0; s < rule.slots(); ++s)
      mine.push_back(
        tensor::full({static_cast<std::int64_t>(model_parameters.size())},
                     rule.initial_slot_value(s), dtype::float32,
                     model_parameters.values(copy).device()));
  }
  used_copies_ = count_used_copies();
}

std::uint32_t model_state::count_used_copies() const {
  return std::clamp(strategy->placement.count(), 1u, model_parameters.copies());
}

void model_state::replace_copy(std::uint32_t copy, std::uint32_t source) {
  model_parameters.values(copy).copy_from(model_parameters.values(source));
  for (std::size_t s = 0; s < slots[copy].size(); ++s)
    slots[copy][s].copy_from(slots[source][s]);
  note_replacement(copy);
}

void model_state::note_replacement(std::uint32_t copy) {
  was_replaced_.resize(std::max<std::size_t>(was_replaced_.size(), copy + 1));
  was_replaced_[copy] = true;
}

fit_position fit_position::completed() const {
  auto out = *this;
  out.is_complete = true;
  out.best_weights = {};
  for (auto& one : out.epochs)
    one.seconds = 0;
  return out;
}

void model_state::broadcast_copy(std::uint32_t source) {
  for (std::uint32_t copy = 0; copy < used_copies_; ++copy)
    if (copy != source)
      replace_copy(copy, source);
}

void model_state::on_new_placement() {
  const auto before = model_parameters.copies();
  model_parameters.grow(strategy->copies, strategy->placement.count(),
                        resident_tensor);
  const sharing_scope slots_are_not_contributed{false};
  while (slots.size() < model_parameters.copies()) {
    const auto copy = static_cast<std::uint32_t>(slots.size());
    note_replacement(copy);
    const auto on = model_parameters.values(copy).device();
    auto& added = slots.emplace_back();
    for (const auto& one : slots.front())
      added.emplace_back(resident_tensor(one.dims(), on)).copy_from(one);
  }
  // Those that the view before has not used are old.
  const auto used = count_used_copies();
  for (auto copy = used_copies_; copy < std::min(used, before); ++copy)
    replace_copy(copy, 0);
  used_copies_ = used;
  loop_optimizer.grow(model_parameters.copies(), model_parameters.replicas());
}

void model_state::check_readable() const {
  if (strategy->lacks_state)
    throw std::logic_error(
      "this process joins a running job, and its model has no values yet; it "
      "gets them in the first call of fit, evaluate or save, or in the first "
      "iteration of strategy.loop, that the job has not completed");
  throw_if_excluded(*strategy);
}

void model_state::check_no_fit_step(const std::string& operation) const {
  check_no_step_callback_of(*strategy, this, operation);
  if (has_fit_steps)
    throw std::logic_error(operation
                           + " was called while another thread runs steps of a "
                             "fit of the model; call it in on_epoch_end, or "
                             "after fit");
}

std::vector<tensor> model_state::first_copy() const {
  std::vector<tensor> out{model_parameters.values(0)};
  out.insert(out.end(), slots[0].begin(), slots[0].end());
  return out;
}

void model_state::keep_state() {
  const auto current = first_copy();
  const sharing_scope copies_are_not_contributed{false};
  if (kept_.empty())
    for (const auto& x : current)
      kept_.push_back(x.clone());
  else
    for (std::size_t i = 0; i < current.size(); ++i)
      kept_[i].copy_from(current[i]);
  loop_optimizer.keep_state();
}

void model_state::restore_state() {
  if (kept_.empty())
    return; // the model is younger than the step
  auto current = first_copy();
  for (std::size_t i = 0; i < current.size(); ++i)
    current[i].copy_from(kept_[i]);
  broadcast_copy(0);
  loop_optimizer.restore_state();
}

namespace {

/// State of a model without its tensors.
struct described_model {
  std::string of_optimizer;
  std::uint64_t steps = 0;
  std::uint64_t next_epoch = 0;
  std::string note;
  /// Value of `model_state::interrupted`. Empty: none.
  std::string interrupted;
  bool has_best_weights = false; ///< It has best weights, which are copied.
};

described_model read_model(const std::string& text) {
  described_model out;
  if (!decode_text(text, out.of_optimizer, out.steps, out.next_epoch, out.note,
                   out.interrupted, out.has_best_weights))
    throw job_error(ec::protocol, "a worker sent a malformed state of a model");
  return out;
}

} // namespace

std::string model_state::state_text() {
  const bool has_best =
    strategy->are_calls_copied() && interrupted && interrupted->best_weights;
  return encode_text(loop_optimizer.state_text(), steps, next_epoch, note,
                     interrupted ? to_text(*interrupted) : std::string{},
                     has_best);
}

std::vector<tensor> model_state::state_tensors(const std::string& text) {
  auto out = first_copy();
  if (!text.empty() && read_model(text).has_best_weights) {
    best_weights_ = interrupted && interrupted->best_weights
                      ? interrupted->best_weights
                      : tensor::zeros(model_parameters.values(0).dims());
    out.push_back(best_weights_);
  }
  return out;
}

void model_state::on_copied(const std::string& text) {
  const auto other = read_model(text);
  broadcast_copy(0);
  loop_optimizer.on_copied(other.of_optimizer);
  const auto best = std::exchange(best_weights_, {});
  // A process that has made the calls of the program has these, or gets them
  // from the fit in which it is.
  if (!strategy->lacks_state || !strategy->are_calls_copied())
    return;
  steps = other.steps;
  next_epoch = other.next_epoch;
  note = other.note;
  interrupted.reset();
  if (other.interrupted.empty())
    return;
  if (!from_text(other.interrupted, interrupted.emplace()))
    throw job_error(ec::protocol,
                    "a worker sent a malformed position of a fit");
  if (other.has_best_weights)
    interrupted->best_weights = best;
}

std::string describe_computation(const model_state& state) {
  return describe_model(state.net.description()) + "precision: "
         + describe_precision(state.net.precision(),
                              state.strategy->tensor_device())
         + "\nloss: " + state.loss->name + '\n';
}

std::string model_state::description() const {
  return describe_computation(*this) + "seed: " + std::to_string(seed)
         + "\noptimizer: " + describe_rule(rule) + '\n';
}

void check_data(const model_state& state, const data::dataset& batches,
                std::string_view description) {
  check_data(state.net, *state.loss, batches, description);
}

} // namespace troupe
