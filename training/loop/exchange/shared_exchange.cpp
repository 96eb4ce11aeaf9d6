#include "troupe/training/loop/exchange/shared_exchange.hpp"

namespace troupe {

shared_exchange::shared_exchange(model_state& model, const step_rules& rules,
                                 const trained_parameters& trained,
                                 std::size_t sums)
  : model_{model},
    rules_{rules},
    trained_ranges_{trained.dense_ranges()},
    update_{model, trained_ranges_, trained.tables()},
    metrics_(model.model_parameters.replicas()) {
  for (std::uint32_t id = 0; id < metrics_.size(); ++id)
    replicas_.push_back({model.model_parameters.gradients(id)});
  for (auto& one : metrics_)
    one.reset(sums);
}

void shared_exchange::begin(const replica_step& step) {
  replicas_[step.index].has_finite_sums = true;
}

void shared_exchange::on_gradient(const replica_step& step,
                                  std::size_t parameter) {
  auto& self = replicas_[step.index];
  const auto begin = model_.model_parameters.offset(parameter);
  const auto n = model_.variables()[parameter].dims().elements();
  self.has_finite_sums =
    self.has_finite_sums
    && update_.part_has_finite_sums(self.gradient, {begin, begin + n});
}

void shared_exchange::begin_without_examples(const replica_step& step) {
  begin(step);
  for (const auto& one : trained_ranges_)
    replicas_[step.index].gradient.range(one.begin, one.end).set_zero();
  if (auto* tables = update_.tables())
    tables->clear_rows(step.index);
}

gradient_exchange::outcome shared_exchange::update(const replica_step& step) {
  using state = shared_update::gradient_state;
  const auto& self = replicas_[step.index];
  auto& context = *step.context;
  const bool has_finite_sums =
    self.has_finite_sums && update_.tables_have_finite_sums(step.index);
  const auto own = !step.is_loss_finite ? state::bad
                   : has_finite_sums    ? state::finite_sums
                                        : state::unknown;
  // The barrier shows these metrics to the other replicas.
  metrics_[step.index] = context.report;
  // A schedule is user code, which need not return the same on each replica.
  const auto [is_finite, rate] = update_.wait_for_gradients(
    context, own, rules_.learning_rate(context.step));
  if (is_finite && step.examples > 0) {
    const auto rule = rules_.at(context.step, step.examples, rate);
    update_.apply(rule);
    if (auto* tables = update_.tables())
      tables->apply(rule);
  }
  return {.is_finite = is_finite, .metrics = metrics_};
}

void shared_exchange::end(const replica_step& step,
                          std::uint64_t /*steps_done*/, bool /*is_stopped*/) {
  update_.wait_for_end(*step.context);
}

} // namespace troupe
