#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <string>
#include <string_view>

namespace troupe {

/// The header of a saved model: everything except the elements of its tensors.
struct saved_header {
  models::model_description model;
  std::vector<parameter_spec> parameters; ///< Parameters in the file's order.
  std::string loss;
  std::string optimizer;
  hyperparameters optimizer_numbers;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  std::uint64_t next_epoch = 0; ///< Value of `model_state::next_epoch`.
  std::string note;
  /// Interrupted fit, without the elements of the best weights. None: no fit
  /// was interrupted.
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
