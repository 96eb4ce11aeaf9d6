#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/loop/options/metric_list.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/batch_task.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"
#include "troupe/training/parameter_server/per_worker.hpp"
#include "troupe/training/parameter_server/pulled_tables.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"
#include "troupe/training/support/data_identity.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Name of the registered closure that executes a `batch_task`.
inline constexpr auto batch_closure = "batch";

/// Positions of a worker in the datasets of a `server_batches`.
struct batch_cursors {
  std::optional<data::cursor> training, validation;
};

class server_network;

/// The batches of which closures compute, and what they report.
struct server_batches {
  server_batches(metric_list metrics, std::vector<float> class_weights,
                 std::optional<data::dataset> training,
                 std::optional<data::dataset> validation);

  /// Describes what the closures of a fit compute, or those of an evaluation:
  /// the network, its variables, its precision and loss, the metrics and the
  /// data, and for a fit the update rule, the seed and the class weights. One
  /// "name: value" a line.
  /// @cost the first call reads two batches.
  const std::string& description(const server_network& network,
                                 batch_task::kind what) const;

  /// Identifies the training data. @cost the first call reads two batches.
  const data_identity& training_identity() const;

  const metric_list metrics;
  const std::vector<float> class_weights;
  const std::optional<data::dataset> training, validation;
  const per_worker<batch_cursors> cursors;

private:
  /// A value that the first call of a function computes.
  template <class T>
  struct computed_once {
    std::once_flag once;
    T value;
  };
  mutable computed_once<std::string> of_fit_, of_evaluation_;
  mutable computed_once<data_identity> training_identity_;
};

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

  /// Executes a task, in a closure. If the loss or an element of the gradient
  /// is not finite, or the sum over all replicas might not be, it changes
  /// nothing, neither a table nor another parameter, and sets the sum
  /// `metric_list::skipped`. The gradient of an update is divided by the number
  /// of examples of the whole batch.
  /// @errors throws std::invalid_argument if the dataset has another number of
  ///         batches than the task says.
  step_metrics run(const batch_task& task, const server_batches& from) const;

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
  const server_optimizer& optimizer() const { return optimizer_; }

private:
  server_network(const parameter_server_strategy& strategy,
                 const std::string* name, const server_variable* values,
                 const models::model_description& architecture,
                 const update_rule& rule, const model_options& options);

  /// The parameters as a worker has read them, and their gradients.
  struct worker_copy {
    parameters dense;
    std::vector<variable> variables; ///< Of the network. Tables: none.
  };

  using worker_copies = std::vector<std::shared_ptr<worker_copy>>;

  worker_copy make_copy() const;
  std::shared_ptr<worker_copy> pull() const;
  tensor forward(const batch& rows, const worker_copy& own,
                 pulled_tables& tables, bool training) const;
  /// @param rows          of the replica.
  /// @param step_examples examples of the whole batch.
  step_metrics train(const batch_task& task, const batch& rows,
                     std::int64_t step_examples,
                     const server_batches& from) const;
  step_metrics score(const batch& rows, const server_batches& from) const;

  const models::network net_;
  const models::loss* const loss_;
  const std::uint64_t seed_;
  const std::vector<std::size_t> dense_;
  const parameters layout_; ///< Where each parameter is in the variable.
  const std::vector<server_table> tables_;
  const std::vector<server_variable> variables_;
  const server_optimizer optimizer_;
  /// By worker. A copy is in use if the closure that uses it holds a handle
  /// too.
  const per_worker<worker_copies> copies_;
};

} // namespace troupe
