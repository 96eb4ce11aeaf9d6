#pragma once

#include "troupe/tensors/cuda/runtime.hpp"

// Only .cu files include this file.

namespace troupe::cuda {

/// Reports an invalid value, unless another one is reported that no wait has
/// thrown.
__device__ inline void report_invalid(invalid_value* to,
                                      invalid_value::kind what, long long value,
                                      long long position, long long limit) {
  if (atomicCAS(to->is_claimed, 0, 1) != 0)
    return;
  to->value = value;
  to->position = position;
  to->limit = limit;
  __threadfence_system(); // before the host can see that there is one
  *static_cast<volatile int*>(&to->what) = static_cast<int>(what);
}

} // namespace troupe::cuda
