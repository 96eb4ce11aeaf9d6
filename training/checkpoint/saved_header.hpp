#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <string>
#include <string_view>

namespace troupe {

/// The header of a saved model: everything except the elements of its tensors.
struct saved_header {
  models::model_description model;
  std::vector<parameter_spec> parameters; ///< In the order of the file.
  std::string loss;
  std::string optimizer;
  hyperparameters optimizer_numbers;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  std::uint64_t next_epoch = 0; ///< As `model_state::next_epoch`.
  std::string note;
  /// Without the elements of the best weights.
  std::optional<fit_position> fit;
  bool best_weights = false; ///< True if the file contains the best weights.
};

/// Returns the header as JSON.
std::string write_header(const saved_header& header);

/// Parses the header.
/// @param version of the file's format; version 1 does not count the epochs of
///             earlier fits.
/// @param file_name names the file in errors.
/// @errors throws std::invalid_argument or std::runtime_error with a sentence.
saved_header read_header(std::string_view text, std::uint32_t version,
                         const std::string& file_name);

} // namespace troupe
