#pragma once

#include "troupe/tensors/update_rules.hpp"

#include <array>
#include <cstddef>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

/// Starts an update of n parameters, with the bits of the CPU.
cudaError_t update(const rule_coefficients& step, float* values,
                   const float* gradient, const std::array<float*, 2>& slots,
                   std::size_t n, cudaStream_t stream);

/// Starts a search for an element whose magnitude exceeds `limit`, or that is
/// NaN. If there is one, `*found` becomes 1.
cudaError_t find_exceeding(const float* x, std::size_t n, float limit,
                           int* found, cudaStream_t stream);

} // namespace troupe::cuda
