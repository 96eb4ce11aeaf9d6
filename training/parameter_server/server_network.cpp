#include "troupe/training/parameter_server/server_network.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/tensors/base/exact_numbers.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/feed/batch_inputs.hpp"
#include "troupe/training/loop/model/example_losses.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/strategies/replica/worker_difference.hpp"
#include "troupe/training/support/describe_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

std::vector<std::size_t> dense_parameters(const models::network& net) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    if (!net.parameters()[i].is_table)
      out.push_back(i);
  return out;
}

parameters layout_of(const models::network& net,
                     const std::vector<std::size_t>& dense) {
  std::vector<parameter_spec> specs;
  for (const auto i : dense)
    specs.push_back(net.parameters()[i]);
  return parameters{std::move(specs)};
}

/// Returns the initial values of all parameters but tables, [size] float32.
tensor initial_values(const models::network& net,
                      const std::vector<std::size_t>& dense,
                      const parameters& layout, std::uint64_t seed) {
  auto all = layout.values().clone();
  const auto values = all.mutable_data<float>();
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const auto& dims = net.parameters()[dense[i]].dims;
    net.initial(dense[i]).fill(
      values.subspan(layout.offset(i), dims.elements()), dims,
      initial_key(seed, static_cast<std::uint32_t>(dense[i])));
  }
  return all;
}

/// Removes the tables of a model that cannot be made.
void remove(const parameter_server_strategy& strategy,
            const std::vector<server_table>& tables) {
  try {
    for (const auto& one : tables)
      strategy.remove_variable(one.values);
  } catch (const job_error& e) {
    log(log_level::warning,
        std::string{"tables of a model that could not be made stay: "}
          + e.what());
  }
}

/// Makes the tables, or finds them.
/// @param name of the variable of the other parameters.
std::vector<server_table> tables_of(const parameter_server_strategy& strategy,
                                    const std::string& name, bool makes,
                                    const models::network& net,
                                    std::uint64_t seed) {
  std::vector<server_table> out;
  // The initial values are those of a network in one process.
  const auto make = [&](const std::string& of_table, std::size_t i) {
    try {
      return strategy.servers()->make_table(
        of_table, net.parameters()[i].dims,
        {.initial = net.initial(i),
         .key = initial_key(seed, static_cast<std::uint32_t>(i))});
    } catch (...) {
      remove(strategy, out);
      throw;
    }
  };
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    const auto& one = net.parameters()[i];
    if (!one.is_table)
      continue;
    const auto of_table = name + "/" + one.name;
    out.push_back({i, makes ? make(of_table, i) : strategy.variable(of_table)});
    if (out.back().values.spec().dims != one.dims)
      throw std::invalid_argument(
        "the model \"" + net.name() + "\" has the table \"" + one.name + "\", "
        + to_string(one.dims) + ", but that of the servers is "
        + to_string(out.back().values.spec()));
  }
  return out;
}

/// Makes the variable of all parameters but tables.
server_variable make_values(const parameter_server_strategy& strategy,
                            const std::string& name, const tensor& initial,
                            const std::vector<server_table>& tables) {
  try {
    return strategy.make_variable(name, initial);
  } catch (...) {
    remove(strategy, tables);
    throw;
  }
}

std::vector<server_variable>
variables_of(const server_variable& values,
             const std::vector<server_table>& tables) {
  std::vector<server_variable> out{values};
  for (const auto& one : tables)
    out.push_back(one.values);
  return out;
}

/// Checks that a worker on a node trains as the coordinator's program says.
void check_description(const batch_task& task, const std::string& own) {
  const auto text = difference("the coordinator", task.description, own);
  if (!text.empty())
    throw std::invalid_argument(
      "a worker has " + text
      + "; all workers must train the same model on the same data with the "
        "same options as the coordinator's program");
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

/// Returns how many of the variables of a network, of which the first one holds
/// all parameters but tables, get a contribution. The others get an update.
std::size_t contributed_variables(batch_task::kind what,
                                  std::size_t variables) {
  switch (what) {
    case batch_task::kind::contribute:
      return variables;
    case batch_task::kind::contribute_dense:
      return 1;
    case batch_task::kind::train:
    case batch_task::kind::score:
      break;
  }
  return 0;
}

/// True if the sum of so many gradients, each as large as this one, is finite.
bool has_finite_sum(const parameter_gradient& gradient,
                    std::uint32_t replicas) {
  const auto stored = gradient.elements();
  const auto elements = stored.data<float>();
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

namespace {

/// Describes the values that are read and updated: another model of the same
/// program can have the same network.
std::string description_of_variables(const server_network& network) {
  std::string out;
  for (const auto& one : network.variables())
    out += (one.is_table() ? "table: " : "variable: ") + one.name() + ' '
           + to_string(one.spec()) + '\n';
  return out;
}

std::string description_of_fit(const server_network& network,
                               const server_batches& from) {
  const auto& rule = network.optimizer().rule();
  auto out = "optimizer: " + std::string{rule.name()}
             + exact_text(rule.numbers())
             + "\nseed: " + std::to_string(network.seed())
             + "\nclass weights:" + (from.class_weights.empty() ? " none" : "");
  for (const auto weight : from.class_weights)
    out += ' ' + exact_text(weight);
  return out + '\n' + describe(from.training_identity());
}

} // namespace

const data_identity& server_batches::training_identity() const {
  auto& out = training_identity_;
  std::call_once(out.once, [&] { out.value = identify(*training); });
  return out.value;
}

const std::string& server_batches::description(const server_network& network,
                                               batch_task::kind what) const {
  const bool scores = what == batch_task::kind::score;
  auto& out = scores ? of_evaluation_ : of_fit_;
  std::call_once(out.once, [&] {
    const auto& net = network.net();
    out.value =
      describe_model(net.description()) + description_of_variables(network)
      + "precision: " + describe_precision(net.precision(), {}) + "\nloss: "
      + network.used_loss().name + "\nmetrics: " + metrics.description() + '\n'
      + (scores ? describe(identify(*validation), " of the validation data")
                : description_of_fit(network, *this));
  });
  return out.value;
}

server_network::server_network(const parameter_server_strategy& strategy,
                               const std::string* name,
                               const server_variable* values,
                               const models::model_description& architecture,
                               const update_rule& rule,
                               const model_options& options)
  : net_{architecture, options.precision},
    loss_{&models::find_loss(options.loss)},
    seed_{options.seed},
    dense_{dense_parameters(net_)},
    layout_{layout_of(net_, dense_)},
    tables_{tables_of(strategy, name ? *name : values->name(), name != nullptr,
                      net_, seed_)},
    variables_{variables_of(
      name ? make_values(strategy, *name,
                         initial_values(net_, dense_, layout_, seed_), tables_)
           : *values,
      tables_)},
    optimizer_{strategy, rule, variables_.front()},
    copies_{[](std::uint32_t) { return worker_copies{}; }} {
  const auto& found = variables_.front();
  if (found.spec() != layout_.values().spec())
    throw std::invalid_argument("the model \"" + net_.name() + "\" has "
                                + to_string(layout_.values().spec())
                                + " parameters, but variable \"" + found.name()
                                + "\" is " + to_string(found.spec()));
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
  if (!task.description.empty())
    check_description(task, from.description(*this, task.what));
  auto& at = from.cursors.local();
  const auto rows = read(*set, scores ? at.validation : at.training, task);
  if (scores)
    return score(rows, from);
  if (task.replicas == 1)
    return train(task, rows, rows.rows(), from);
  return train(
    task, select_rows(rows, shard_of(rows.rows(), task.replica, task.replicas)),
    rows.rows(), from);
}

server_network::worker_copy server_network::make_copy() const {
  worker_copy out{layout_of(net_, dense_),
                  std::vector<variable>(net_.parameters().size())};
  for (std::size_t i = 0; i < dense_.size(); ++i)
    out.variables[dense_[i]] = out.dense.variables()[i];
  return out;
}

/// Reads the parameters but tables. The caller must not change them.
/// @returns a copy that no other closure uses: a worker can begin another one
///          while this one reads rows of tables.
std::shared_ptr<server_network::worker_copy> server_network::pull() const {
  auto read = values().value();
  auto& all = copies_.local();
  auto unused = std::ranges::find_if(
    all, [](const auto& one) { return one.use_count() == 1; });
  if (unused == all.end())
    unused = all.insert(unused, std::make_shared<worker_copy>(make_copy()));
  auto own = *unused;
  own->dense.use_values(std::move(read));
  return own;
}

tensor server_network::forward(const batch& rows, const worker_copy& own,
                               pulled_tables& tables, bool training) const {
  return net_.forward(inputs_of(rows, net_, {}), own.variables,
                      {.training = training, .tables = &tables});
}

step_metrics server_network::train(const batch_task& task, const batch& rows,
                                   std::int64_t step_examples,
                                   const server_batches& from) const {
  const std::span variables{variables_};
  const auto contributed = contributed_variables(task.what, variables.size());
  step_metrics report;
  report.reset(from.metrics.sum_count());
  report.examples = static_cast<std::uint64_t>(rows.rows());
  if (report.examples == 0) {
    for (const auto& one : variables.first(contributed))
      optimizer_.contribute(
        one.is_table() ? parameter_gradient{sparse_rows::zeros(one.spec())}
                       : parameter_gradient{tensor::zeros(one.spec().dims)},
        one, task.step, task.replica);
    return report;
  }
  const auto own = pull();
  current_context().random = {seed_, task.replica, task.step, 0};
  tape t;
  pulled_tables tables{tables_};
  const auto outputs = forward(rows, *own, tables, true);
  const auto losses = example_losses(
    *loss_, outputs, rows, weights_of_classes(rows.labels, from.class_weights));
  report.sums[metric_list::loss_sum] = models::total(losses);
  from.metrics.add(outputs, rows.labels, report.sums);
  auto gradients =
    tables.gradient_into_variables(t, losses, own->dense.variables());
  gradients.insert(gradients.begin(), own->dense.gradients());
  if (!std::isfinite(report.sums[metric_list::loss_sum])
      || !std::ranges::all_of(gradients, [&](const parameter_gradient& x) {
           return has_finite_sum(x, task.replicas);
         })) {
    if (task.throws_on_nan)
      throw std::runtime_error(
        "the loss or gradient of step " + std::to_string(task.step)
        + " is not finite (try a smaller learning rate, or on_nan skip, in the "
          "tool --on-nan skip)");
    report.sums[metric_list::skipped] = 1;
    return report;
  }
  for (std::size_t i = 0; i < contributed; ++i)
    optimizer_.contribute(gradients[i], variables[i], task.step, task.replica);
  optimizer_.apply(std::span{std::as_const(gradients)}.subspan(contributed),
                   variables.subspan(contributed),
                   {.learning_rate = task.learning_rate,
                    .scale = 1 / static_cast<float>(step_examples)});
  return report;
}

step_metrics server_network::score(const batch& rows,
                                   const server_batches& from) const {
  step_metrics report;
  report.reset(from.metrics.sum_count());
  report.examples = static_cast<std::uint64_t>(rows.rows());
  if (report.examples == 0)
    return report;
  pulled_tables tables{tables_};
  const auto own = pull();
  const auto outputs = forward(rows, *own, tables, false);
  report.sums[metric_list::loss_sum] =
    models::total(example_losses(*loss_, outputs, rows));
  from.metrics.add(outputs, rows.labels, report.sums);
  return report;
}

} // namespace troupe
