#pragma once

#include <cuda_runtime_api.h>
#include <memory>
#include <type_traits>

namespace troupe::cuda {

struct event_deleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using owned_event =
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, event_deleter>;

/// Makes an event of the device that the calling thread has selected. A thread
/// that waits for it gives its processor to others if the process sees at least
/// half as many devices as there are processors. Otherwise it spins, which
/// takes less time.
/// @errors throws device_error.
owned_event make_event();

} // namespace troupe::cuda
