#pragma once

#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_batches.hpp"
#include "troupe/training/parameter_server/server_network.hpp"
#include "troupe/training/parameter_server/server_replica.hpp"
#include "troupe/training/parameter_server/server_tasks.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe {

/// Makes the steps of a replica of a training, in a closure: reads the
/// parameters from the servers, computes the gradient of a batch, or of the
/// replica's part of it, and contributes it.
///
///   synchronous  the read waits until the step before is decided. Each step is
///                reported. An execution that takes the place of another one
///                begins with the last step to which the replica has
///                contributed, because the chief may lack the report. If that
///                step is decided, it begins with the next one. A replica
///                leaves out a step that was decided without it, unless the
///                tables have a consistency of their own
///   otherwise    an execution that takes the place of another one begins with
///                the first step of the task. The servers keep the
///                contributions of the first execution
///   end          after the last step of the task, or when another training has
///                begun
class replica_steps {
public:
  /// @param on_step called with the number of each step of the model that
  ///        begins. Empty: no effect.
  replica_steps(const server_network& network, const server_batches& batches,
                train_task task, closure_context& self,
                std::function<void(std::uint64_t step)> on_step = {});

  /// @returns by step of the task: its metrics. Empty if the steps are
  ///          synchronous.
  /// @errors throws std::invalid_argument if the worker has another dataset or
  ///         model than the coordinator; std::runtime_error if the loss or
  ///         gradient is not finite (`train_task::throws_on_nan`); what
  ///         `server_replica::pull` throws.
  std::vector<step_metrics> run();

private:
  std::uint64_t find_first_step();
  tensor pull(std::uint64_t step);
  tensor pull_rows(std::uint64_t step, std::size_t table,
                   const std::vector<std::int64_t>& rows);
  void make_all_steps();
  tensor make_step(std::uint64_t step, const tensor& values);
  tensor contribute(std::uint64_t step, std::int64_t rows,
                    server_network::replica_gradients&& found);
  parameter_server::update_factors factors_of(std::uint64_t step,
                                              std::int64_t rows) const;

  const server_network& network_;
  const server_batches& batches_;
  const train_task task_;
  closure_context& self_;
  const std::function<void(std::uint64_t)> on_step_;
  server_replica replica_;
  std::vector<step_metrics> metrics_;
};

} // namespace troupe
