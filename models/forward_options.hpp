#pragma once

namespace troupe::models {

/// How a model is called.
struct forward_options {
  /// Layers that compute something else in training do so: dropout drops.
  bool training = false;
};

} // namespace troupe::models
