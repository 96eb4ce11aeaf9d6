#pragma once

namespace troupe {

struct model_state;

/// Throws std::runtime_error that names a variable if a parameter is NaN or
/// infinite. The loss and the gradients of a step are checked before its
/// update; so this is the only check of the last update.
/// @cost reads all parameters.
void check_finite_weights(const model_state& state);

} // namespace troupe
