#pragma once

namespace troupe::models {

class table_source;

/// Options of a forward pass.
struct forward_options {
  /// True in a training step: layers such as dropout then change their output.
  bool training = false;
  /// Has the tables of the network. Null: the variables are the tables.
  table_source* tables = nullptr;
};

} // namespace troupe::models
