#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/description.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tensors/schedules.hpp"
#include "troupe/tensors/update_rules.hpp"
#include "troupe/training/loop/fit.hpp"
#include "troupe/training/loop/history.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Options of `server_model::fit`. The members mean what those of `fit_options`
/// mean.
struct server_fit_options {
  std::uint64_t epochs = 1;
  /// None: 0 in the first fit, else the epoch after the last one.
  std::optional<std::uint64_t> first_epoch{};
  std::optional<data::dataset> validation{};
  /// Called after each epoch, while no step runs.
  std::function<void(const epoch_record&)> on_epoch_end{};
  std::optional<std::vector<models::metric>> metrics{};
  std::vector<float> class_weights{};
  std::optional<troupe::schedule> schedule{};
  troupe::on_nan on_nan = troupe::on_nan::stop;
  /// When it is true, no further step begins.
  const std::atomic<bool>* stop = nullptr;
};

/// A network whose parameters are on parameter servers. It is trained
/// asynchronously: each step is a closure, which reads the parameters, computes
/// the gradient of one batch, and sends it to the servers. A step does not wait
/// for others, so its gradient belongs to parameters that others have changed
/// meanwhile.
class server_model {
public:
  /// @param name of the variable that holds all parameters; must be new.
  /// @errors as the constructor of `model`, and `make_variable`.
  server_model(const parameter_server_strategy& strategy,
               const std::string& name,
               const models::model_description& architecture,
               const update_rule& rule, const model_options& options = {});
  ~server_model();
  server_model(const server_model&) = delete;
  server_model& operator=(const server_model&) = delete;

  /// Trains on a batched dataset. Each batch is one step, of one worker. In
  /// each epoch every batch counts once, also if workers are removed. With one
  /// worker and one closure in flight, the parameters have the bits of
  /// `model::fit` with one replica.
  /// @param coordinator of the strategy of this model. Its workers are threads,
  ///        and all its closures must be done.
  /// @errors throws std::invalid_argument if the data does not fit the model or
  ///         an option is invalid; std::runtime_error if a loss is not finite
  ///         (`on_nan`); what `cluster_coordinator::join` throws.
  history fit(cluster_coordinator& coordinator, const data::dataset& batches,
              const server_fit_options& options = {});

  /// Returns the loss and the metrics over a batched dataset. Each batch is a
  /// closure, and counts once.
  /// @errors as `fit`
  evaluation evaluate(cluster_coordinator& coordinator,
                      const data::dataset& batches,
                      const evaluate_options& options = {});

  /// Returns the SHA-256 of all parameters, as `model::weights_sha256`.
  std::string weights_sha256() const;

  /// Gives the values of the parameters to a model of the same architecture,
  /// which can save them.
  /// @errors throws std::invalid_argument if its parameters have other names or
  ///         shapes.
  void copy_to(model& target) const;

  /// Steps so far. @pre no fit runs.
  std::uint64_t steps() const;
  /// The variable that holds all parameters, each at a multiple of 16 elements.
  const server_variable& variable() const;

private:
  struct impl;
  const std::shared_ptr<impl> impl_; ///< Closures share it.
};

} // namespace troupe
