#pragma once

#include "troupe/training/loop/model/model_state.hpp"

#include <string>
#include <string_view>

namespace troupe {

/// Where a job of several processes was when it saved a model. Of two positions
/// of one job, the later one has the newer view, or the same view and more
/// calls.
struct saved_position {
  std::uint64_t job = 0;  ///< Value of `strategy_state::job_id`.
  std::uint64_t view = 0; ///< View of the process that has saved the model.
  std::uint64_t call = 0; ///< Value of `strategy_state::all_calls`.

  friend bool operator==(const saved_position&,
                         const saved_position&) = default;
};

/// True if both positions are of one job, and `a` is later than `b`.
bool is_later(const saved_position& a, const saved_position& b);

/// The header of a saved model: everything except the elements of its tensors.
struct saved_header {
  models::model_description model;
  std::vector<parameter_spec> parameters; ///< Parameters in the file's order.
  std::string loss;
  std::string optimizer;
  hyperparameters optimizer_numbers;
  models::precision precision = models::precision::float32;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  std::uint64_t next_epoch = 0; ///< Value of `model_state::next_epoch`.
  std::string note;
  /// None: the job had one process.
  std::optional<saved_position> saved_at;
  /// Interrupted or complete fit, without the elements of the best weights.
  /// None: no fit can be resumed.
  std::optional<fit_position> fit;
  bool best_weights = false; ///< True if the file contains the best weights.
};

/// Returns the header as JSON.
std::string write_header(const saved_header& header);

/// Parses the header.
/// @param version version of the file format. Files of version 1 do not contain
///        the number of epochs of earlier fits. Files of versions 1 and 2
///        contain the accuracy as the only metric.
/// @param file_name name of the file in error texts.
/// @errors throws std::invalid_argument if the model's description is invalid,
///         and std::runtime_error if another part of the header is invalid.
saved_header read_header(std::string_view text, std::uint32_t version,
                         const std::string& file_name);

} // namespace troupe
