#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/training/loop/options/metric_list.hpp"
#include "troupe/training/parameter_server/per_worker.hpp"
#include "troupe/training/parameter_server/server_network.hpp"
#include "troupe/training/support/data_identity.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The batches of which closures compute, and what they report.
struct server_batches {
  server_batches(metric_list metrics, std::vector<float> class_weights,
                 std::optional<data::dataset> training,
                 std::optional<data::dataset> validation);

  /// Describes what the closures of a fit compute: the network, its variables,
  /// its precision and loss, the metrics, the update rule, the seed, the class
  /// weights and the data. One "name: value" a line.
  /// @errors throws std::invalid_argument if this program has no such data.
  /// @cost the first call reads two batches.
  const std::string& description_of_fit(const server_network& network) const;
  /// Describes what the closures of an evaluation compute: the network, its
  /// variables, its precision and loss, the metrics and the data.
  /// @errors as `description_of_fit`
  const std::string&
  description_of_evaluation(const server_network& network) const;

  /// Identifies the training data. @cost the first call reads two batches.
  const data_identity& training_identity() const;

  /// Reads a batch with the cursor of the worker that executes the calling
  /// closure.
  /// @param batches of an epoch, as the coordinator's program has them.
  /// @errors throws std::invalid_argument if this program has no such data, or
  ///         another number of batches.
  batch read_training(const data::position& which, std::uint64_t batches) const;
  batch read_validation(std::uint64_t index, std::uint64_t batches) const;

  const metric_list metrics;
  const std::vector<float> class_weights;
  const std::optional<data::dataset> training, validation;

private:
  /// Positions of a worker in the datasets.
  struct cursors {
    std::optional<data::cursor> training, validation;
  };
  /// A value that the first call of a function computes.
  template <class T>
  struct computed_once {
    std::once_flag once;
    T value;
  };
  const data::dataset& training_data() const;
  const data::dataset& validation_data() const;

  mutable computed_once<std::string> of_fit_, of_evaluation_;
  mutable computed_once<data_identity> training_identity_;
  const per_worker<cursors> cursors_;
};

/// Checks that a worker on a node trains as the coordinator's program says.
/// @param of_coordinator description of its program.
/// @errors throws std::invalid_argument that names what differs.
void check_equal_programs(const std::string& of_coordinator,
                          const std::string& own);

} // namespace troupe
