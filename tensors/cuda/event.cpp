#include "troupe/tensors/cuda/event.hpp"

#include "troupe/tensors/cuda/runtime.hpp"

#include <unistd.h>

namespace troupe::cuda {

owned_event make_event() {
  static const bool gives_way =
    2 * device_count() >= ::sysconf(_SC_NPROCESSORS_ONLN);
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made,
                                 cudaEventDisableTiming
                                   | (gives_way ? cudaEventBlockingSync : 0u)),
        "cudaEventCreateWithFlags");
  return owned_event{made};
}

} // namespace troupe::cuda
