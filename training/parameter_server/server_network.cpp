#include "troupe/training/parameter_server/server_network.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/feed/batch_inputs.hpp"
#include "troupe/training/loop/model/example_losses.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/server_batches.hpp"
#include "troupe/training/parameter_server/server_tasks.hpp"

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
    training_{std::make_shared<const training_layout>(variables_)},
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

server_network::worker_copy server_network::make_copy() const {
  worker_copy out{layout_of(net_, dense_),
                  std::vector<variable>(net_.parameters().size())};
  for (std::size_t i = 0; i < dense_.size(); ++i)
    out.variables[dense_[i]] = out.dense.variables()[i];
  return out;
}

std::shared_ptr<server_network::worker_copy>
server_network::copy_with(tensor values) const {
  auto& all = copies_.local();
  auto unused = std::ranges::find_if(
    all, [](const auto& one) { return one.use_count() == 1; });
  if (unused == all.end())
    unused = all.insert(unused, std::make_shared<worker_copy>(make_copy()));
  auto own = *unused;
  own->dense.use_values(std::move(values));
  return own;
}

void server_network::discard(const std::shared_ptr<worker_copy>& copy) const {
  std::erase(copies_.local(), copy);
}

tensor server_network::forward(const batch& rows, const worker_copy& own,
                               pulled_tables& tables, bool training) const {
  return net_.forward(inputs_of(rows, net_, {}), own.variables,
                      {.training = training, .tables = &tables});
}

server_network::replica_gradients
server_network::gradients(const batch& rows, const replica_step& which,
                          worker_copy& own, pulled_tables& tables,
                          const server_batches& from) const {
  replica_gradients out;
  auto& report = out.report;
  report.reset(from.metrics.sum_count());
  report.examples = static_cast<std::uint64_t>(rows.rows());
  if (report.examples == 0) {
    out.gradients.emplace_back(tensor::zeros(values().spec().dims));
    for (const auto& one : tables_)
      out.gradients.emplace_back(sparse_rows::zeros(one.values.spec()));
    return out;
  }
  current_context().random = {seed_, which.replica, which.step, 0};
  tape t;
  const auto outputs = forward(rows, own, tables, true);
  const auto losses = example_losses(
    *loss_, outputs, rows, weights_of_classes(rows.labels, from.class_weights));
  report.sums[metric_list::loss_sum] = models::total(losses);
  from.metrics.add(outputs, rows.labels, report.sums);
  out.gradients =
    tables.gradient_into_variables(t, losses, own.dense.variables());
  out.gradients.insert(out.gradients.begin(), own.dense.gradients());
  if (!std::isfinite(report.sums[metric_list::loss_sum])
      || !std::ranges::all_of(out.gradients, [&](const parameter_gradient& x) {
           return has_finite_sum(x, which.replicas);
         })) {
    report.sums[metric_list::skipped] = 1;
    out.gradients.clear();
  }
  return out;
}

step_metrics server_network::score(const score_task& task,
                                   const server_batches& from) const {
  if (!task.description.empty())
    check_equal_programs(task.description,
                         from.description_of_evaluation(*this));
  const auto rows = from.read_validation(task.index, task.batches);
  step_metrics report;
  report.reset(from.metrics.sum_count());
  report.examples = static_cast<std::uint64_t>(rows.rows());
  if (report.examples == 0)
    return report;
  pulled_tables tables{tables_};
  const auto own = copy_with(values().value());
  const auto outputs = forward(rows, *own, tables, false);
  report.sums[metric_list::loss_sum] =
    models::total(example_losses(*loss_, outputs, rows));
  from.metrics.add(outputs, rows.labels, report.sums);
  return report;
}

} // namespace troupe
