#pragma once

#include "troupe/tensors/cuda/index_map.cuh"
#include "troupe/tensors/cuda/launch.cuh"

namespace troupe::cuda {

/// Which elements are added to which result.
struct reduction_plan {
  index_map kept;    ///< From a result to its first element.
  index_map reduced; ///< From a number of a term to its distance from there.
  std::size_t results = 1, terms = 1;

  /// @param over bit i set: axis i is reduced.
  reduction_plan(const shape& x, std::uint32_t over) {
    std::size_t strides[shape::max_rank] = {};
    std::size_t step = 1;
    for (auto axis = x.rank(); axis-- > 0;) {
      strides[axis] = step;
      step *= std::size_t(x[axis]);
    }
    for (std::size_t axis = 0; axis < x.rank(); ++axis) {
      const bool is_reduced = over >> axis & 1;
      (is_reduced ? terms : results) *= std::size_t(x[axis]);
      (is_reduced ? reduced : kept).add(x[axis], strides[axis]);
    }
  }
};

/// Adds the values of all threads of a block, in a fixed order.
/// @pre the block has a power of two of threads, at most 256.
__device__ inline double sum_of_block(double value) {
  __shared__ double sums[256];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (auto half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

/// Block (part, result) adds a part of the terms of a result, and calls
/// `put(part, result, sum)`.
template <class Term, class Put>
__global__ void sum_parts(reduction_plan plan, std::size_t terms_of_part,
                          Term term, Put put) {
  const std::size_t result = blockIdx.y;
  const auto base = plan.kept(result);
  const auto begin = blockIdx.x * terms_of_part;
  const auto end = min(begin + terms_of_part, plan.terms);
  double sum = 0;
  for (auto i = begin + threadIdx.x; i < end; i += blockDim.x)
    sum += term(base + plan.reduced(i));
  sum = sum_of_block(sum);
  if (threadIdx.x == 0)
    put(blockIdx.x, result, sum);
}

/// Calls `put(result, sum)` for each result. The sum of `term(i)` over its
/// elements is added in float64, in an order that depends on the shape only.
template <class Term, class Put>
void reduce(const op_call& call, const reduction_plan& plan, const Term& term,
            const Put& put) {
  if (plan.results == 0)
    return;
  constexpr std::size_t sequential = 64, max_results = 60'000;
  if (plan.terms <= sequential || plan.results >= max_results) {
    run(call, plan.results, [=] __device__(std::size_t result) {
      const auto base = plan.kept(result);
      double sum = 0;
      for (std::size_t i = 0; i < plan.terms; ++i)
        sum += term(base + plan.reduced(i));
      put(result, sum);
    });
    return;
  }
  // Enough blocks to fill a device.
  constexpr std::size_t wanted_blocks = 512, min_terms = 2048;
  const auto parts = std::clamp<std::size_t>(
    std::min(wanted_blocks / plan.results, plan.terms / min_terms), 1, 512);
  const auto terms_of_part = (plan.terms + parts - 1) / parts;
  const auto start = [&](const auto& put_part) {
    const dim3 blocks(static_cast<unsigned>(parts),
                      static_cast<unsigned>(plan.results));
    sum_parts<<<blocks, 256, 0, compute_stream(call)>>>(plan, terms_of_part,
                                                        term, put_part);
    check_launch(call, cudaGetLastError());
  };
  if (parts == 1)
    return start([=] __device__(std::size_t, std::size_t result, double sum) {
      put(result, sum);
    });
  tensor sums{
    {{static_cast<std::int64_t>(plan.results * parts)}, dtype::float64},
    call.on};
  auto* const of_parts = mutable_elements<double>(sums);
  start([=] __device__(std::size_t part, std::size_t result, double sum) {
    of_parts[result * parts + part] = sum;
  });
  run(call, plan.results, [=] __device__(std::size_t result) {
    double sum = 0;
    for (std::size_t i = 0; i < parts; ++i)
      sum += of_parts[result * parts + i];
    put(result, sum);
  });
}

} // namespace troupe::cuda
