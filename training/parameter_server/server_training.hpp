#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/description.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/training/loop/options/fit_options.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/registered_closures.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What a worker on a node needs to train a `server_model`. All members must be
/// those of the program that has the `cluster_coordinator`. Each closure checks
/// that, and its error names what differs: of the model also the names of its
/// variables, and of the data the numbers of batches and examples, and hashes
/// of the first and the last batch.
struct server_training {
  std::string name; ///< Of the model.
  models::model_description architecture;
  update_rule rule;
  model_options options{};
  data::dataset batches;
  std::optional<data::dataset> validation{};
  std::optional<std::vector<models::metric>> metrics{};
  std::vector<float> class_weights{};
  /// For tests: gets the steps that the worker begins. Null: no faults.
  std::shared_ptr<injection::process_fault_injector> faults{};
};

/// Name of the closures that `register_server_training` registers:
/// `coordinator_options::closures`.
inline constexpr auto server_training_closures = "server_model";

/// Lets coordinators use a node of this runtime as a worker that trains a
/// `server_model`.
/// @param describe called once for each worker, with
///        `coordinator_options::arguments`, which it has to check.
/// @errors as `register_closures`
void register_server_training(
  runtime& actors,
  std::function<server_training(const std::string& arguments)> describe,
  const client_options& to_servers = {.window = 4096});

} // namespace troupe
