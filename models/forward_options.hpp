#pragma once

namespace troupe::models {

/// Options of a forward pass.
struct forward_options {
  /// True in training: layers such as dropout then compute something else.
  bool training = false;
};

} // namespace troupe::models
