#pragma once

#include "troupe/data/pipeline/batch.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"
#include "troupe/training/parameter_server/per_worker.hpp"
#include "troupe/training/parameter_server/pulled_tables.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"
#include "troupe/training/parameter_server/training_layout.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct score_task;
struct server_batches;

/// A network whose parameters are on parameter servers, and the computation of
/// its closures. All parameters but the tables are one variable. Each table is
/// a table of the servers, "<name of the variable>/<name of the parameter>", of
/// which a closure reads and updates the rows of its batch.
class server_network {
public:
  /// Makes the variable and the tables.
  server_network(const parameter_server_strategy& strategy,
                 const std::string& name,
                 const models::model_description& architecture,
                 const update_rule& rule, const model_options& options);
  /// Uses a variable, and tables, that another process has made.
  /// @errors throws std::invalid_argument if it has another size.
  server_network(const parameter_server_strategy& strategy,
                 const server_variable& values,
                 const models::model_description& architecture,
                 const update_rule& rule, const model_options& options);
  server_network(const server_network&) = delete;
  server_network& operator=(const server_network&) = delete;

  /// The parameters but tables as a worker has read them, and their gradients.
  struct worker_copy {
    parameters dense;
    std::vector<variable> variables; ///< Of the network. Tables: none.
  };
  /// Returns a copy with these values, which no other closure of the worker
  /// uses. It can execute other closures while this one reads rows of tables.
  /// @param values of `values()`. The caller must not change them.
  std::shared_ptr<worker_copy> copy_with(tensor values) const;
  /// No closure uses a copy again, because its gradient may still be sent.
  void discard(const std::shared_ptr<worker_copy>& copy) const;

  /// Which gradient a replica computes.
  struct replica_step {
    std::uint64_t step = 0; ///< Of the model.
    std::uint32_t replica = 0;
    std::uint32_t replicas = 1; ///< That contribute to the sum.
  };
  struct replica_gradients {
    step_metrics report;
    /// Of `variables()`. Empty: the loss or an element of the gradient is not
    /// finite, or the sum over all replicas might not be. Then the report has
    /// the sum `metric_list::skipped`.
    parameter_gradients gradients;
  };
  /// Computes the sum of the gradients over the examples of a replica, in a
  /// closure. Those of `values()` are in `own`, which a later call changes.
  /// @param rows of the replica. There may be none.
  replica_gradients gradients(const batch& rows, const replica_step& which,
                              worker_copy& own, pulled_tables& tables,
                              const server_batches& from) const;

  /// Computes the loss and the metrics of a batch, in a closure.
  /// @errors throws std::invalid_argument if the worker has other data or
  ///         another model than the coordinator.
  step_metrics score(const score_task& task, const server_batches& from) const;

  const models::network& net() const { return net_; }
  const models::loss& used_loss() const { return *loss_; }
  std::uint64_t seed() const { return seed_; }
  /// Numbers of the parameters that are not tables.
  const std::vector<std::size_t>& dense() const { return dense_; }
  /// These parameters in their order, as they are in `values`.
  const parameters& layout() const { return layout_; }
  const server_variable& values() const { return variables_.front(); }
  const std::vector<server_table>& tables() const { return tables_; }
  /// Returns `values` and the tables.
  const std::vector<server_variable>& variables() const { return variables_; }
  /// Returns the layout of a training of `variables()`.
  const std::shared_ptr<const training_layout>& training() const {
    return training_;
  }
  const server_optimizer& optimizer() const { return optimizer_; }

private:
  server_network(const parameter_server_strategy& strategy,
                 const std::string* name, const server_variable* values,
                 const models::model_description& architecture,
                 const update_rule& rule, const model_options& options);

  using worker_copies = std::vector<std::shared_ptr<worker_copy>>;

  worker_copy make_copy() const;
  tensor forward(const batch& rows, const worker_copy& own,
                 pulled_tables& tables, bool training) const;

  const models::network net_;
  const models::loss* const loss_;
  const std::uint64_t seed_;
  const std::vector<std::size_t> dense_;
  const parameters layout_; ///< Where each parameter is in the variable.
  const std::vector<server_table> tables_;
  const std::vector<server_variable> variables_;
  const std::shared_ptr<const training_layout> training_;
  const server_optimizer optimizer_;
  /// By worker. A copy is in use if the closure that uses it holds a handle
  /// too.
  const per_worker<worker_copies> copies_;
};

} // namespace troupe
