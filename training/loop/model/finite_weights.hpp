#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

struct model_state;

/// Throws std::runtime_error that names a variable if one of its elements is
/// NaN or infinite. The loss and the gradients of a step are checked before its
/// update; so this is the only check of the last update.
/// @param steps that the model has made.
void check_finite_weights(std::string_view variable,
                          std::span<const float> elements, std::uint64_t steps);

/// Checks all parameters of a model. @cost reads all parameters.
void check_finite_weights(const model_state& state);

} // namespace troupe
