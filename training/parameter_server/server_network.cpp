#include "troupe/training/parameter_server/server_network.hpp"

#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/batch_inputs.hpp"
#include "troupe/training/loop/example_losses.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Returns the initial values of all parameters, [size] float32.
tensor initial_values(const models::network& net, std::uint64_t seed) {
  parameters all{net.parameters()};
  net.initialize(all, seed);
  return all.values();
}

/// Reads one batch with the cursor of the calling worker.
batch read(const data::dataset& from, std::optional<data::cursor>& at,
           const batch_task& task) {
  if (from.size() != task.batches)
    throw std::invalid_argument(
      "the coordinator's dataset has " + std::to_string(task.batches)
      + " batches, that of this worker "
      + (from.size() ? std::to_string(*from.size()) : "no end"));
  if (!at)
    at.emplace(from.prefetch(0).iterate());
  at->restore({task.epoch, task.index});
  auto found = at->next();
  if (!found)
    throw std::invalid_argument("there is no batch "
                                + std::to_string(task.index));
  return std::move(*found);
}

/// True if the sum of so many gradients, each as large as this one, is finite.
bool has_finite_sum(const tensor& gradient, std::uint32_t replicas) {
  const auto elements = gradient.data<float>();
  return !kernels().any_exceeds(elements.data(), elements.size(),
                                std::numeric_limits<float>::max()
                                  / static_cast<float>(replicas));
}

} // namespace

server_batches::server_batches(metric_list list, std::vector<float> weights,
                               std::optional<data::dataset> for_training,
                               std::optional<data::dataset> for_validation)
  : metrics{std::move(list)},
    class_weights{std::move(weights)},
    training{std::move(for_training)},
    validation{std::move(for_validation)},
    cursors{[](std::uint32_t) { return batch_cursors{}; }} {}

server_network::server_network(const parameter_server_strategy& strategy,
                               const std::string* name,
                               const server_variable* values,
                               const models::model_description& architecture,
                               const update_rule& rule,
                               const model_options& options)
  : net_{architecture, options.precision},
    loss_{&models::find_loss(options.loss)},
    seed_{options.seed},
    layout_{net_.parameters()},
    values_{name ? strategy.make_variable(*name, initial_values(net_, seed_))
                 : *values},
    optimizer_{strategy, rule},
    copies_{[this](std::uint32_t) { return parameters{net_.parameters()}; }} {
  for (const auto& one : net_.parameters())
    if (one.is_table)
      throw std::invalid_argument(
        "the model \"" + net_.name() + "\" has the table \"" + one.name
        + "\", of which a step updates some rows; parameter servers would "
          "update all of it; train it with another strategy");
  if (values_.spec() != layout_.values().spec())
    throw std::invalid_argument(
      "the model \"" + net_.name() + "\" has "
      + to_string(layout_.values().spec()) + " parameters, but variable \""
      + values_.name() + "\" is " + to_string(values_.spec()));
}

server_network::server_network(const parameter_server_strategy& strategy,
                               const std::string& name,
                               const models::model_description& architecture,
                               const update_rule& rule,
                               const model_options& options)
  : server_network{strategy, &name, nullptr, architecture, rule, options} {}

server_network::server_network(const parameter_server_strategy& strategy,
                               const server_variable& values,
                               const models::model_description& architecture,
                               const update_rule& rule,
                               const model_options& options)
  : server_network{strategy, nullptr, &values, architecture, rule, options} {}

step_metrics server_network::run(const batch_task& task,
                                 const server_batches& from) const {
  const bool scores = task.what == batch_task::kind::score;
  const auto& set = scores ? from.validation : from.training;
  if (!set)
    throw std::invalid_argument(scores ? "this worker has no validation data"
                                       : "this worker has no training data");
  auto& at = from.cursors.local();
  const auto rows = read(*set, scores ? at.validation : at.training, task);
  if (scores)
    return score(rows, from);
  if (task.replicas == 1)
    return train(task, rows, from);
  return train(
    task, select_rows(rows, shard_of(rows.rows(), task.replica, task.replicas)),
    from);
}

/// Reads the parameters for the calling worker, which must not change them.
parameters& server_network::pull() const {
  auto values = values_.value(); // another closure of the worker may run here
  auto& own = copies_.local();
  own.use_values(std::move(values));
  return own;
}

step_metrics server_network::train(const batch_task& task, const batch& rows,
                                   const server_batches& from) const {
  const bool contributes = task.what == batch_task::kind::contribute;
  step_metrics report;
  report.reset(from.metrics.sum_count());
  report.examples = static_cast<std::uint64_t>(rows.rows());
  if (report.examples == 0) {
    if (contributes)
      optimizer_.contribute(tensor::zeros(values_.spec().dims), values_,
                            task.step, task.replica);
    return report;
  }
  auto& own = pull();
  current_context().random = {seed_, task.replica, task.step, 0};
  tape t;
  const auto outputs = net_.forward(inputs_of(rows, net_, {}), own.variables(),
                                    {.training = true});
  const auto losses = example_losses(*loss_, outputs, rows, from.class_weights);
  report.sums[metric_list::loss_sum] = models::total(losses);
  from.metrics.add(outputs, rows.labels, report.sums);
  t.gradient_into_variables(losses, own.variables());
  const auto gradient = own.gradients();
  if (!std::isfinite(report.sums[metric_list::loss_sum])
      || !has_finite_sum(gradient, task.replicas)) {
    if (task.throws_on_nan)
      throw std::runtime_error(
        "the loss or gradient of step " + std::to_string(task.step)
        + " is not finite (try a smaller learning rate, or on_nan skip, in the "
          "tool --on-nan skip)");
    report.sums[metric_list::skipped] = 1;
    return report;
  }
  if (contributes)
    optimizer_.contribute(gradient, values_, task.step, task.replica);
  else
    optimizer_.apply(std::vector<tensor>{gradient}, std::span{&values_, 1},
                     {.learning_rate = task.learning_rate,
                      .scale = 1 / static_cast<float>(report.examples)});
  return report;
}

step_metrics server_network::score(const batch& rows,
                                   const server_batches& from) const {
  step_metrics report;
  report.reset(from.metrics.sum_count());
  report.examples = static_cast<std::uint64_t>(rows.rows());
  if (report.examples == 0)
    return report;
  const auto outputs =
    net_.forward(inputs_of(rows, net_, {}), pull().variables());
  report.sums[metric_list::loss_sum] =
    models::total(example_losses(*loss_, outputs, rows));
  from.metrics.add(outputs, rows.labels, report.sums);
  return report;
}

} // namespace troupe
