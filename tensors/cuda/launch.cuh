#pragma once

#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/op.hpp"

#include <algorithm>
#include <cstddef>

// What the kernels of ops share. Work is described by lambdas that a device can
// call; nvcc needs --extended-lambda and --expt-relaxed-constexpr.

namespace troupe::cuda {

inline constexpr unsigned threads_per_block = 256;
/// More blocks than a device runs at once; each thread then does several
/// elements.
inline constexpr std::size_t max_blocks = 8192;

template <class F>
__global__ void __launch_bounds__(threads_per_block)
  each_kernel(std::size_t n, F f) {
  const auto step = std::size_t{gridDim.x} * blockDim.x;
  for (auto i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += step)
    f(i);
}

/// Calls `f(i)` on the device, for each i below n in any order.
template <class F>
cudaError_t for_each(cudaStream_t stream, std::size_t n, const F& f) {
  if (n == 0)
    return cudaSuccess;
  const auto blocks =
    std::min(max_blocks, (n + threads_per_block - 1) / threads_per_block);
  each_kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(
    n, f);
  return cudaGetLastError();
}

/// Starts `for_each` for a call of an op.
template <class F>
void run(const op_call& call, std::size_t n, const F& f) {
  check_launch(call, for_each(compute_stream(call), n, f));
}

/// Addresses of the elements of a tensor on its device.
template <class T>
const T* elements(const tensor& x) {
  return reinterpret_cast<const T*>(x.address());
}
template <class T>
T* mutable_elements(tensor& x) {
  return reinterpret_cast<T*>(x.mutable_address());
}

} // namespace troupe::cuda
