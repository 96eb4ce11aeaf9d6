#include "troupe/training/parameter_server/replica_steps.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/pulled_tables.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// Reads all parameters but tables.
const std::array all_values{server_replica::read{0, {}}};

} // namespace

replica_steps::replica_steps(const server_network& network,
                             const server_batches& batches, train_task task,
                             closure_context& self,
                             std::function<void(std::uint64_t)> on_step)
  : network_{network},
    batches_{batches},
    task_{std::move(task)},
    self_{self},
    on_step_{std::move(on_step)},
    replica_{*current_closure(), network.training(), task_.training,
             task_.replica} {}

std::vector<step_metrics> replica_steps::run() {
  if (!task_.description.empty())
    check_equal_programs(task_.description,
                         batches_.description_of_fit(network_));
  try {
    make_all_steps();
  } catch (const job_error& e) {
    if (e.code != ec::superseded)
      throw;
  }
  return std::move(metrics_);
}

void replica_steps::make_all_steps() {
  const bool leaves_out = task_.is_synchronous && !task_.has_table_consistency;
  auto step = find_first_step();
  auto values = pull(step);
  while (step < task_.last) {
    const auto decided = replica_.newest_version(0);
    if (leaves_out && decided > step) {
      step = decided; // read again: another server may lack the decision
      values = pull(step);
    } else {
      values = make_step(step, values);
      ++step;
    }
  }
}

std::uint64_t replica_steps::find_first_step() {
  if (self_.attempt() == 1 || !task_.is_synchronous)
    return task_.first;
  const auto found = replica_.find_step();
  return found - std::min<std::uint64_t>(found, 1);
}

/// Reads the parameters but tables. Empty: there is no such step.
tensor replica_steps::pull(std::uint64_t step) {
  return step < task_.last ? std::move(replica_.pull(step, all_values)[0])
                           : tensor{};
}

tensor replica_steps::pull_rows(std::uint64_t step, std::size_t table,
                                const std::vector<std::int64_t>& rows) {
  const std::array all{
    server_replica::read{static_cast<std::uint32_t>(1 + table), rows}};
  return std::move(replica_.pull(step, all)[0]);
}

/// @param values of the parameters but tables.
/// @returns those for the next step. Empty: it is not of this task.
tensor replica_steps::make_step(std::uint64_t step, const tensor& values) {
  const auto number = task_.batch_of(step);
  if (on_step_)
    on_step_(task_.model_step + number);
  auto rows =
    batches_.read_training({task_.epoch, task_.index + number}, task_.batches);
  const auto all_rows = rows.rows();
  server_network::replica_step which{task_.model_step + number, 0, 1};
  if (task_.is_synchronous) {
    which.replica = task_.replica;
    which.replicas = task_.replicas;
    if (task_.replicas > 1)
      rows =
        select_rows(rows, shard_of(all_rows, task_.replica, task_.replicas));
  }
  pulled_tables tables{
    network_.tables(),
    [&](std::size_t table, const std::vector<std::int64_t>& wanted) {
      return pull_rows(step, table, wanted);
    }};
  const auto own = network_.copy_with(values);
  auto found = network_.gradients(rows, which, *own, tables, batches_);
  if (found.gradients.empty() && task_.throws_on_nan)
    throw std::runtime_error(
      "the loss or gradient of step " + std::to_string(which.step)
      + " is not finite (try a smaller learning rate, or on_nan skip, in the "
        "tool --on-nan skip)");
  try {
    return contribute(step, all_rows, std::move(found));
  } catch (...) {
    network_.discard(own);
    throw;
  }
}

/// Contributes to a step, and reads for the next one. When that read has
/// returned, all servers have applied the step, so the buffer of the gradient
/// can be used again. If there is no such read, or if backups can get the
/// gradient later, it is copied.
tensor replica_steps::contribute(std::uint64_t step, std::int64_t rows,
                                 server_network::replica_gradients&& found) {
  auto& [report, gradients] = found;
  const bool is_last = step + 1 == task_.last;
  const bool has_backups =
    network_.values().state()->servers->options().copies > 1;
  if (!gradients.empty() && (has_backups || (is_last && task_.is_synchronous)))
    gradients[0] = gradients[0].dense().clone();
  const auto factors = factors_of(step, rows);
  if (!task_.is_synchronous) {
    metrics_.push_back(std::move(report));
    const auto next = std::span{all_values}.first(is_last ? 0 : 1);
    auto read = replica_.push(step, gradients, factors, next);
    return is_last ? tensor{} : std::move(read[0]);
  }
  replica_.push(step, gradients, factors);
  self_.report(encode(replica_report{step, rows, report}));
  return pull(step + 1);
}

parameter_server::update_factors
replica_steps::factors_of(std::uint64_t step, std::int64_t rows) const {
  if (task_.learning_rates.empty())
    return {};
  return {.has_learning_rate = true,
          .learning_rate = task_.learning_rates[step - task_.first],
          .scale = 1 / static_cast<float>(rows)};
}

} // namespace troupe
