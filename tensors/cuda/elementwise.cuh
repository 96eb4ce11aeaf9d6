#pragma once

#include "troupe/tensors/cuda/elements.cuh"
#include "troupe/tensors/cuda/index_map.cuh"
#include "troupe/tensors/cuda/launch.cuh"

#include <algorithm>

// Kernels that compute each element of a result from one element of each
// operand. They are limited by memory, so a thread loads 16 bytes at once where
// the layout allows it. Which elements are computed together changes no bit.

namespace troupe::cuda {

/// What a kernel reads for each element of its result.
template <class T>
struct operand {
  const T* from;
  bool is_whole; ///< Element i of the result reads element i.
  index_map map; ///< Which element it reads otherwise.

  /// Returns what element i of the result reads.
  __device__ number_of<T> operator[](std::size_t i) const {
    return flushed(number(from[is_whole ? i : map(i)]));
  }

  template <int lanes>
  __device__ pack<number_of<T>, lanes> load(std::size_t i) const {
    pack<number_of<T>, lanes> out;
    const auto at = is_whole ? i : map(i);
    if (!is_whole && map.repeats()) {
      const auto value = flushed(number(from[at]));
      for (int k = 0; k < lanes; ++k)
        out.lane[k] = value;
      return out;
    }
    const auto& elements = pack_at<lanes>(from, at);
    for (int k = 0; k < lanes; ++k)
      out.lane[k] = flushed(number(elements.lane[k]));
    return out;
  }

  /// True if `load` can load that many elements from each multiple of `lanes`.
  template <int lanes>
  bool is_packed() const {
    if (is_whole)
      return are_aligned<lanes>(from);
    return map.is_packed(lanes) && (map.repeats() || are_aligned<lanes>(from));
  }
};

template <class T>
operand<T> whole(const tensor& x) {
  return {elements<T>(x), true, {}};
}

/// Returns the elements of `x`, broadcast to the shape `target`.
template <class T>
operand<T> broadcast(const tensor& x, const shape& target) {
  return {elements<T>(x), x.size() == target.elements(),
          broadcast_map(x.dims(), target)};
}

template <int lanes, class F, class Out, class... Numbers>
__device__ void store_results(std::size_t i, const F& f, bool accumulates,
                              Out* out, const Numbers&... in) {
  pack<Out, lanes> results;
  if (accumulates)
    results = pack_at<lanes>(out, i);
  for (int k = 0; k < lanes; ++k)
    put(results.lane[k], f(in.lane[k]...), accumulates);
  pack_at<lanes>(out, i) = results;
}

template <int lanes, class F, class Out, class... In>
__global__ void __launch_bounds__(threads_per_block)
  transform_kernel(std::size_t n, F f, bool accumulates, Out* out,
                   operand<In>... in) {
  const auto first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x,
             step = std::size_t{gridDim.x} * blockDim.x;
  const auto packs = n / lanes;
  for (auto i = first; i < packs; i += step)
    store_results<lanes>(i * lanes, f, accumulates, out,
                         in.template load<lanes>(i * lanes)...);
  for (auto i = packs * lanes + first; i < n; i += step)
    store_results<1>(i, f, accumulates, out, in.template load<1>(i)...);
}

/// Starts to compute `out[i] = f(numbers of the operands...)` for each i below
/// n, or to add that to `out[i]`. An operand may be `out`.
template <class F, class Out, class... In>
void transform(const op_call& call, std::size_t n, Out* out, bool accumulates,
               const F& f, const operand<In>&... in) {
  if (n == 0)
    return;
  constexpr int lanes = 16 / std::min({sizeof(Out), sizeof(In)...});
  const bool is_packed =
    are_aligned<lanes>(out) && (... && in.template is_packed<lanes>());
  const auto threads = is_packed ? (n + lanes - 1) / lanes : n;
  const auto blocks = static_cast<unsigned>(std::min(
    max_blocks, (threads + threads_per_block - 1) / threads_per_block));
  const auto stream = compute_stream(call);
  if (is_packed)
    transform_kernel<lanes>
      <<<blocks, threads_per_block, 0, stream>>>(n, f, accumulates, out, in...);
  else
    transform_kernel<1>
      <<<blocks, threads_per_block, 0, stream>>>(n, f, accumulates, out, in...);
  check_launch(call, cudaGetLastError());
}

} // namespace troupe::cuda
