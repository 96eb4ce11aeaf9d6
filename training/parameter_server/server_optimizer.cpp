#include "troupe/training/parameter_server/server_optimizer.hpp"

#include "troupe/training/parameter_server/parameter_server_strategy.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

namespace {

sparse_rows clone(const sparse_rows& x) {
  return {x.dims(), x.indices().clone(), x.rows().clone()};
}

void check(const update_options& options) {
  const auto rate = options.learning_rate.value_or(0);
  if (!std::isfinite(rate) || rate < 0 || !std::isfinite(options.scale))
    throw std::invalid_argument(
      "apply: the learning rate " + std::to_string(rate) + " or the scale "
      + std::to_string(options.scale) + " is negative or not finite");
}

} // namespace

server_optimizer::server_optimizer(const parameter_server_strategy& strategy,
                                   const update_rule& rule)
  : rule_{rule},
    servers_{strategy.name()},
    number_{strategy.servers()->make_optimizer(rule)} {}

server_optimizer::server_optimizer(const parameter_server_strategy& strategy,
                                   const update_rule& rule,
                                   const server_variable& values)
  : rule_{rule},
    servers_{strategy.name()},
    number_{strategy.servers()->make_optimizer(rule, values)} {}

void server_optimizer::check_owner(const server_variable& variable) const {
  const auto& owner = variable.state()->servers->job();
  if (owner != servers_)
    throw std::logic_error(
      "the variable \"" + variable.name()
      + "\" belongs to parameter_server_strategy " + owner
      + ", but its optimizer (" + std::string{rule_.name()} + ") to " + servers_
      + "; make the optimizer with the strategy of the variable");
}

void server_optimizer::apply(std::span<const parameter_gradient> gradients,
                             std::span<const server_variable> variables,
                             const update_options& options) const {
  check(options);
  if (gradients.size() != variables.size())
    throw std::invalid_argument(
      "apply: " + std::to_string(gradients.size()) + " gradients for "
      + std::to_string(variables.size()) + " variables");
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& variable = variables[i];
    check_owner(variable);
    if (gradients[i] && !gradients[i].is_sparse() && variable.is_table())
      throw std::invalid_argument(
        "apply: variable \"" + variable.name()
        + "\" is a table, and needs a sparse gradient "
          "(tape::sparse_gradients)");
    if (!gradients[i] || gradients[i].dims() != variable.spec().dims
        || gradients[i].type() != dtype::float32
        || variable.spec().type != dtype::float32)
      throw std::invalid_argument(
        "apply: variable \"" + variable.name() + "\", "
        + to_string(variable.spec()) + ", cannot have the gradient "
        + (gradients[i]
             ? to_string(tensor_spec{gradients[i].dims(), gradients[i].type()})
             : "that is empty"));
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& one = gradients[i];
    variables[i].change(
      {.what = parameter_server::part_change::kind::gradient,
       .all = one.is_sparse() ? tensor{} : one.dense(),
       .rows = one.is_sparse() ? clone(one.rows()) : sparse_rows{},
       .optimizer = number_,
       .learning_rate = options.learning_rate,
       .scale = options.scale});
  }
}

void server_optimizer::apply(std::span<const tensor> gradients,
                             std::span<const server_variable> variables,
                             const update_options& options) const {
  apply(std::vector<parameter_gradient>(gradients.begin(), gradients.end()),
        variables, options);
}

void server_optimizer::contribute(const parameter_gradient& gradient,
                                  const server_variable& variable,
                                  std::uint64_t step,
                                  std::uint32_t replica) const {
  check_owner(variable);
  variable.change(
    {.what = parameter_server::part_change::kind::contribute,
     .all = gradient.is_sparse() ? tensor{} : gradient.dense(),
     .rows = gradient.is_sparse() ? clone(gradient.rows()) : sparse_rows{},
     .step = step,
     .replica = replica});
}

void server_optimizer::apply_contributions(
  const server_variable& variable, std::uint64_t step,
  const std::vector<std::uint32_t>& contributors,
  const update_options& options) const {
  check(options);
  check_owner(variable);
  variable.change(
    {.what = parameter_server::part_change::kind::apply_contributions,
     .optimizer = number_,
     .learning_rate = options.learning_rate,
     .scale = options.scale,
     .step = step,
     .contributors = contributors});
}

server_optimizer::state
server_optimizer::state_of(const server_variable& variable) const {
  check_owner(variable);
  const auto& at = *variable.state();
  state out;
  for (std::uint32_t slot = 0; slot < rule_.slots(); ++slot) {
    std::vector<tensor> parts;
    for (const auto& part : at.parts)
      parts.push_back(at.servers->pull_optimizer(at, part, number_, slot));
    out.slots.push_back(join_parts(variable.spec(), parts));
  }
  out.steps = static_cast<std::uint64_t>(
    at.servers
      ->pull_optimizer(at, at.parts.front(), number_,
                       static_cast<std::uint32_t>(rule_.slots()))
      .item<std::int64_t>());
  return out;
}

void server_optimizer::restore(const server_variable& variable,
                               const state& from) const {
  if (current_closure())
    throw std::logic_error("a closure cannot restore an optimizer");
  check_owner(variable);
  if (from.slots.size() != rule_.slots())
    throw std::invalid_argument("restore: " + std::to_string(from.slots.size())
                                + " slots; " + std::string{rule_.name()}
                                + " has " + std::to_string(rule_.slots()));
  using kind = parameter_server::part_change::kind;
  for (std::uint32_t slot = 0; slot < rule_.slots(); ++slot)
    variable.change({.what = kind::restore_slot,
                     .all = from.slots[slot],
                     .optimizer = number_,
                     .slot = slot});
  variable.change(
    {.what = kind::restore_steps, .optimizer = number_, .steps = from.steps});
}

} // namespace troupe
