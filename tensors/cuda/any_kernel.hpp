#pragma once

#include <cuda_runtime_api.h>

namespace troupe::cuda {

/// Loads a kernel for the device that the calling thread has selected. All
/// kernels are built for the same devices, so if this one has no code for the
/// device, none has.
cudaError_t load_any_kernel();

} // namespace troupe::cuda
