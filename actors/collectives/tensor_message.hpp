#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/strategies/tree/reduction.hpp"

namespace troupe {

/// A message that carries a tensor between two roles of one process. Tensor
/// queues store messages in this form.
struct tensor_message {
  /// `contribution`, `result` or `gather_contribution`.
  message_kind kind = message_kind::contribution;
  tree::slice_key key; ///< Step, replica, bucket and slice.
  tensor data;
  /// Tensor that receives the sum. The replica that allocates it sends it with
  /// its contribution. Empty in all other messages.
  tensor output;
};

} // namespace troupe
