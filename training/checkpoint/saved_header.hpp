#pragma once

#include "troupe/training/loop/model_state.hpp"

#include <string>
#include <string_view>

namespace troupe {

/// The header of a saved model: all but the elements of its tensors.
struct saved_header {
  models::model_description model;
  std::vector<parameter_spec> parameters; ///< As the file lists them.
  std::string loss;
  std::string optimizer;
  named_numbers optimizer_numbers;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  std::uint64_t passes = 0; ///< As in model_state.
  std::string note;
  std::optional<fit_position> fit; ///< Without the best weights themselves.
  bool best_weights = false;       ///< Whether they follow.
};

/// As JSON.
std::string write_header(const saved_header& x);

/// @param version of the file's format; 1 knows no passes of earlier fits.
/// @param where   what errors call the file.
/// @errors throws std::invalid_argument or std::runtime_error with a sentence.
saved_header read_header(std::string_view text, std::uint32_t version,
                         const std::string& where);

} // namespace troupe
