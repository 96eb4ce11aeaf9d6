#pragma once

#include "troupe/tensors/base/dtype.hpp"

#include <cstddef>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

/// Starts the conversion of elements, as `tensor::as` converts them.
cudaError_t convert(void* to, dtype to_type, const void* from, dtype from_type,
                    std::size_t count, cudaStream_t stream);

/// Starts to set elements to a value, converted as by `tensor::full`.
cudaError_t fill(void* to, dtype type, double value, std::size_t count,
                 cudaStream_t stream);

} // namespace troupe::cuda
