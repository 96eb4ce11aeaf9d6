#include "troupe/tensors/cuda/event.hpp"

#include "troupe/tensors/cuda/runtime.hpp"

#include <thread>

namespace troupe::cuda {

owned_event make_event() {
  static const bool gives_way =
    2 * device_count() >= std::thread::hardware_concurrency();
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made,
                                 cudaEventDisableTiming
                                   | (gives_way ? cudaEventBlockingSync : 0u)),
        "cudaEventCreateWithFlags");
  return owned_event{made};
}

} // namespace troupe::cuda
