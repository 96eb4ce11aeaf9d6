#include "troupe/tensors/ops/softmax_cross_entropy.hpp"

#include "troupe/tensors/cuda/launch.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"

#include <cmath>

namespace troupe::cuda {

namespace {

using kind = invalid_value::kind;

// One block computes one row, in an order that depends on the number of classes
// only.

constexpr unsigned threads_for(std::size_t classes) {
  return classes <= 512 ? 32 : 256;
}

/// Combines the values of all threads of a block; all threads get the result.
template <class T, class F>
__device__ T fold_block(T value, F f) {
  __shared__ T values[256];
  values[threadIdx.x] = value;
  __syncthreads();
  for (auto half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      values[threadIdx.x] = f(values[threadIdx.x], values[threadIdx.x + half]);
    __syncthreads();
  }
  const T out = values[0];
  __syncthreads();
  return out;
}

template <class T>
struct exponentials {
  T maximum, sum;
};

/// Writes e^(x - maximum) of a row to `out`, which may be `x`.
template <class T>
__device__ exponentials<T> write_exponentials(T* out, const T* x,
                                              std::size_t n) {
  T maximum = x[0];
  for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
    maximum = x[i] > maximum ? x[i] : maximum;
  maximum = fold_block(maximum, [](T a, T b) { return b > a ? b : a; });
  T sum = 0;
  for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
    sum += out[i] = std::exp(x[i] - maximum);
  return {maximum, fold_block(sum, [](T a, T b) { return a + b; })};
}

template <class T>
__global__ void softmax_rows(T* out, const T* x, std::size_t rows,
                             std::size_t n) {
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    auto* const to = out + row * n;
    const auto sum = write_exponentials(to, x + row * n, n).sum;
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      to[i] /= sum;
  }
}

template <class T>
__global__ void loss_rows(T* losses, T* gradient, const T* logits,
                          const std::int32_t* labels, std::size_t rows,
                          std::size_t n, invalid_value* invalid) {
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto label = labels[row];
    const auto* const x = logits + row * n;
    auto* const to = gradient + row * n;
    if (label < 0 || std::size_t(label) >= n) {
      // The first thread that finds one describes it. The loss is NaN, so no
      // update is made.
      if (threadIdx.x == 0) {
        if (atomicCAS(&invalid->what, int(kind::none), int(kind::label)) == 0) {
          invalid->value = label;
          invalid->position = static_cast<long long>(row);
          invalid->limit = static_cast<long long>(n);
        }
        losses[row] = NAN;
      }
      for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
        to[i] = NAN;
      continue;
    }
    const T right = x[label];
    const auto [maximum, sum] = write_exponentials(to, x, n);
    if (threadIdx.x == 0)
      losses[row] = std::log(sum) - (right - maximum);
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      to[i] = to[i] / sum - (i == std::size_t(label) ? T{1} : T{0});
    __syncthreads();
  }
}

unsigned blocks_for(std::size_t rows) {
  return static_cast<unsigned>(std::min<std::size_t>(rows, 65'535));
}

template <class T>
void loss_forward(op_call& c) {
  c.saved.push_back(tensor{c.in[0].spec(), c.on});
  const auto rows = c.out[0].size();
  const auto classes = std::size_t(c.in[0].dims()[1]);
  if (rows == 0)
    return;
  loss_rows<<<blocks_for(rows), threads_for(classes), 0, compute_stream(c)>>>(
    mutable_elements<T>(c.out[0]), mutable_elements<T>(c.saved[0]),
    elements<T>(c.in[0]), elements<std::int32_t>(c.in[1]), rows, classes,
    invalid_value_of(c.on));
  check_launch(c, cudaGetLastError());
}

template <class T>
void loss_backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto *const saved = elements<T>(c.saved[0]), *const gy = elements<T>(
                                                       c.grad_out[0]);
  auto* const gx = mutable_elements<T>(c.grad_in[0]);
  const auto classes = std::size_t(c.saved[0].dims()[1]);
  const bool accumulates = c.accumulates(0);
  run(c, c.saved[0].size(), [=] __device__(std::size_t i) {
    put(gx[i], saved[i] * gy[i / classes], accumulates);
  });
}

template <class T>
void softmax_forward(op_call& c) {
  const auto rows = std::size_t(c.in[0].dims()[0]),
             classes = std::size_t(c.in[0].dims()[1]);
  if (rows == 0)
    return;
  softmax_rows<<<blocks_for(rows), threads_for(classes), 0,
                 compute_stream(c)>>>(mutable_elements<T>(c.out[0]),
                                      elements<T>(c.in[0]), rows, classes);
  check_launch(c, cudaGetLastError());
}

/// Computes gx = y (gy - sum(y gy)) for each row.
template <class T>
__global__ void softmax_gradient_rows(T* gx, const T* y, const T* gy,
                                      std::size_t rows, std::size_t n,
                                      bool accumulates) {
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto at = row * n;
    double dot = 0;
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      dot += double(y[at + i]) * double(gy[at + i]);
    dot = fold_block(dot, [](double a, double b) { return a + b; });
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      put(gx[at + i],
          static_cast<T>(double(y[at + i]) * (double(gy[at + i]) - dot)),
          accumulates);
  }
}

template <class T>
void softmax_backward(op_call& c) {
  if (!c.wants(0) || c.out[0].size() == 0)
    return;
  const auto rows = std::size_t(c.out[0].dims()[0]),
             classes = std::size_t(c.out[0].dims()[1]);
  softmax_gradient_rows<<<blocks_for(rows), threads_for(classes), 0,
                          compute_stream(c)>>>(
    mutable_elements<T>(c.grad_in[0]), elements<T>(c.out[0]),
    elements<T>(c.grad_out[0]), rows, classes, c.accumulates(0));
  check_launch(c, cudaGetLastError());
}

constexpr std::array loss_kernels{
  op_kernels{dtype::float32, loss_forward<float>, loss_backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, loss_forward<double>, loss_backward<double>,
             device_kind::cuda},
};

constexpr std::array softmax_kernels{
  op_kernels{dtype::float32, softmax_forward<float>, softmax_backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, softmax_forward<double>, softmax_backward<double>,
             device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> softmax_cross_entropy_kernels() {
  static const std::array list{
    kernels_of_op{&ops::softmax_cross_entropy, loss_kernels},
    kernels_of_op{&ops::softmax, softmax_kernels},
  };
  return list;
}

} // namespace troupe::cuda
