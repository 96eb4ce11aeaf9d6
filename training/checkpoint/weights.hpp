#pragma once

#include "troupe/training/loop/model/model_state.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// Weights by name. The functions change the first copy of a model.

namespace troupe {

/// @errors as `model::set_weights`
void set_weights(model_state& state, const std::string& name,
                 const tensor& value);

/// @returns the names of the variables that were set.
/// @errors as `model::load_weights`
std::vector<std::string>
load_weights(model_state& state, const std::filesystem::path& file,
             const std::function<bool(const std::string&)>& only);

} // namespace troupe
