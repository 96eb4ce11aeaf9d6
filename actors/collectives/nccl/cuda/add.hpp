#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

/// Starts a kernel that adds elements: `sum[i] = a[i] + b[i]`. The result does
/// not depend on the launch. Denormals are flushed to zero, as on the CPU.
cudaError_t add(float* sum, const float* a, const float* b,
                std::size_t elements, cudaStream_t stream);
cudaError_t add(double* sum, const double* a, const double* b,
                std::size_t elements, cudaStream_t stream);

} // namespace troupe::cuda
