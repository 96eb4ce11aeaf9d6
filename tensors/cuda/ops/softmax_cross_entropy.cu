#include "troupe/tensors/ops/softmax_cross_entropy.hpp"

#include "troupe/tensors/cuda/elementwise.cuh"
#include "troupe/tensors/cuda/invalid_value.cuh"
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

/// Loads a number of a row.
template <class T>
__device__ number_of<T> load(const T* x, std::size_t i) {
  return flushed(number(x[i]));
}

template <class Number>
struct exponentials {
  Number maximum, sum;
};

/// Calls `put_one(i, e^(x - maximum))` for each element of a row.
template <class T, class Put>
__device__ exponentials<number_of<T>>
sum_exponentials(const T* x, std::size_t n, Put put_one) {
  using value = number_of<T>;
  value maximum = load(x, 0);
  for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
    maximum = load(x, i) > maximum ? load(x, i) : maximum;
  maximum = fold_block(maximum, [](value a, value b) { return b > a ? b : a; });
  value sum = 0;
  for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) {
    const value e = std::exp(load(x, i) - maximum);
    put_one(i, e);
    sum += e;
  }
  return {maximum, fold_block(sum, [](value a, value b) { return a + b; })};
}

template <class T>
__global__ void softmax_rows(T* out, const T* x, std::size_t rows,
                             std::size_t n) {
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto* const from = x + row * n;
    auto* const to = out + row * n;
    const auto [maximum, sum] = sum_exponentials(from, n, [](auto, auto) {});
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      put(to[i], std::exp(load(from, i) - maximum) / sum, false);
  }
}

/// @param gradient receives the derivatives as numbers: for bfloat16 they are
///        not rounded.
template <class T>
__global__ void loss_rows(T* losses, number_of<T>* gradient, const T* logits,
                          const std::int32_t* labels, std::size_t rows,
                          std::size_t n, invalid_value* invalid) {
  using value = number_of<T>;
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto label = labels[row];
    const auto* const x = logits + row * n;
    auto* const to = gradient + row * n;
    if (label < 0 || std::size_t(label) >= n) {
      // The first thread that finds one describes it. The loss is NaN, so no
      // update is made.
      if (threadIdx.x == 0) {
        report_invalid(invalid, kind::label, label, static_cast<long long>(row),
                       static_cast<long long>(n));
        losses[row] = element<T>(NAN);
      }
      for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
        to[i] = NAN;
      continue;
    }
    const value right = load(x, std::size_t(label));
    const auto [maximum, sum] =
      sum_exponentials(x, n, [to](std::size_t i, value e) { to[i] = e; });
    if (threadIdx.x == 0)
      put(losses[row], std::log(sum) - (right - maximum), false);
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      put(to[i], to[i] / sum - (i == std::size_t(label) ? value{1} : value{0}),
          false);
    __syncthreads();
  }
}

unsigned blocks_for(std::size_t rows) {
  return static_cast<unsigned>(std::min<std::size_t>(rows, 65'535));
}

template <class T>
void loss_forward(op_call& c) {
  using value = number_of<T>;
  c.saved.push_back(tensor{{c.in[0].dims(), dtype_of<value>}, c.on});
  const auto rows = c.out[0].size();
  const auto classes = std::size_t(c.in[0].dims()[1]);
  if (rows == 0)
    return;
  loss_rows<<<blocks_for(rows), threads_for(classes), 0, compute_stream(c)>>>(
    mutable_elements<T>(c.out[0]), mutable_elements<value>(c.saved[0]),
    elements<T>(c.in[0]), elements<std::int32_t>(c.in[1]), rows, classes,
    invalid_value_of(c.on));
  check_launch(c, cudaGetLastError());
}

template <class T>
void loss_backward(op_call& c) {
  if (!c.wants(0))
    return;
  using value = number_of<T>;
  const auto& dims = c.saved[0].dims();
  index_map of_row; // from an element to the loss of its row
  of_row.add(dims[0], 1);
  of_row.add(dims[1], 0);
  transform(
    c, dims.elements(), mutable_elements<T>(c.grad_in[0]), c.accumulates(0),
    [] __device__(value slope, value gy) { return slope * gy; },
    whole<value>(c.saved[0]),
    operand<T>{elements<T>(c.grad_out[0]), false, of_row});
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
      dot += double(load(y, at + i)) * double(load(gy, at + i));
    dot = fold_block(dot, [](double a, double b) { return a + b; });
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      put(gx[at + i],
          static_cast<number_of<T>>(double(load(y, at + i))
                                    * (double(load(gy, at + i)) - dot)),
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
  op_kernels{dtype::bfloat16, loss_forward<bfloat16>, loss_backward<bfloat16>,
             device_kind::cuda},
};

constexpr std::array softmax_kernels{
  op_kernels{dtype::float32, softmax_forward<float>, softmax_backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, softmax_forward<double>, softmax_backward<double>,
             device_kind::cuda},
  op_kernels{dtype::bfloat16, softmax_forward<bfloat16>,
             softmax_backward<bfloat16>, device_kind::cuda},
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
