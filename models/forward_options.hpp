#pragma once

namespace troupe::models {

/// Options of a forward pass.
struct forward_options {
  /// True in a training step: layers such as dropout then change their output.
  bool training = false;
};

} // namespace troupe::models
