#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/strategies/tree/reduction.hpp"

namespace troupe {

/// A message with a tensor within a process, in the form that a tensor queue
/// stores.
struct tensor_message {
  /// Contribution to a sum, reduced slice, or contribution to a gather.
  message_kind kind = message_kind::contribution;
  tree::slice_key key; ///< Step, sender, bucket and slice of the message.
  tensor data;
  /// Output of the sum, in a contribution of the replica that allocates it;
  /// else empty.
  tensor output;
};

} // namespace troupe
