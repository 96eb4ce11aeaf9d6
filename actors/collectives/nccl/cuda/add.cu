#include "troupe/actors/collectives/nccl/cuda/add.hpp"

#include "troupe/tensors/cuda/elements.cuh"

#include <algorithm>

namespace troupe::cuda {

namespace {

constexpr unsigned threads_per_block = 256;
constexpr std::size_t max_blocks = 4096;

template <class T>
__global__ void add_elements(T* sum, const T* a, const T* b,
                             std::size_t elements) {
  const auto step = std::size_t{gridDim.x} * blockDim.x;
  for (auto i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < elements; i += step)
    sum[i] = sum_of(a[i], b[i]);
}

template <class T>
cudaError_t start(T* sum, const T* a, const T* b, std::size_t elements,
                  cudaStream_t stream) {
  if (elements == 0)
    return cudaSuccess;
  const auto blocks = std::min(max_blocks, (elements + threads_per_block - 1)
                                             / threads_per_block);
  add_elements<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(
    sum, a, b, elements);
  return cudaGetLastError();
}

} // namespace

cudaError_t add(float* sum, const float* a, const float* b,
                std::size_t elements, cudaStream_t stream) {
  return start(sum, a, b, elements, stream);
}

cudaError_t add(double* sum, const double* a, const double* b,
                std::size_t elements, cudaStream_t stream) {
  return start(sum, a, b, elements, stream);
}

} // namespace troupe::cuda
