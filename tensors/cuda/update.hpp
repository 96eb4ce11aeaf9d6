#pragma once

#include "troupe/tensors/optim/update_rules.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

/// Starts an update of n parameters, with the bits of the CPU.
/// @param is_skipped on the device. Not 0: nothing is changed. Null: 0.
cudaError_t update(const rule_coefficients& step, float* values,
                   const float* gradient, const std::array<float*, 2>& slots,
                   std::size_t n, const std::int32_t* is_skipped,
                   cudaStream_t stream);

/// Starts an update of some rows of parameters, with the bits of the CPU.
/// @param rows numbers of the rows to which the elements of the gradient
///        belong, all different.
/// @param n number of elements of the gradient.
cudaError_t update_rows(const rule_coefficients& step, float* values,
                        const float* gradient, const std::int64_t* rows,
                        std::size_t row_size,
                        const std::array<float*, 2>& slots, std::size_t n,
                        cudaStream_t stream);

/// Starts a search for an element whose magnitude exceeds `limit`, or that is
/// NaN. If there is one, `*found` becomes 1.
cudaError_t find_exceeding(const float* x, std::size_t n, float limit,
                           std::int32_t* found, cudaStream_t stream);

} // namespace troupe::cuda
