#include "troupe/tensors/cuda/ops/bias_activation.hpp"

#include "troupe/tensors/cuda/elementwise.cuh"
#include "troupe/tensors/cuda/kernels/part_sums.cuh"

#include <type_traits>

namespace troupe::cuda {

namespace {

template <class X, class T>
void start_bias(const op_call& call, const tensor& x, const tensor& bias,
                bool relu, tensor& y) {
  using value = number_of<T>;
  transform(
    call, x.size(), mutable_elements<T>(y), false,
    [=] __device__(value product, value b) {
      const value sum = product + b;
      return relu && sum < 0 ? value{0} : sum;
    },
    whole<X>(x), broadcast<T>(bias, x.dims()));
}

template <class T>
void start_relu(const op_call& call, tensor& y) {
  using value = number_of<T>;
  transform(
    call, y.size(), mutable_elements<T>(y), false,
    [] __device__(value x) { return x < 0 ? value{0} : x; }, whole<T>(y));
}

constexpr unsigned tile_columns = 32, tile_rows = 8;

/// Block (x, y) adds the rows of part y in 32 columns, and calls
/// `put(part, column, sum)`.
/// @param y Null: there is no mask.
template <class T, class Put>
__global__ void sum_columns(T* g, const T* y, std::size_t rows,
                            std::size_t columns, std::size_t rows_of_part,
                            Put put) {
  using value = number_of<T>;
  __shared__ value of_thread[tile_rows][tile_columns];
  const auto column = std::size_t{blockIdx.x} * tile_columns + threadIdx.x;
  const auto begin = blockIdx.y * rows_of_part;
  const auto end = min(begin + rows_of_part, rows);
  value sum = 0;
  // Several rows are loaded before the first is written, so that the loads
  // overlap.
  constexpr unsigned batch = 4;
  for (auto row = begin + threadIdx.y; row < end && column < columns;
       row += batch * tile_rows) {
    value loaded[batch];
    bool masked[batch];
    for (unsigned k = 0; k < batch; ++k) {
      const auto at = row + k * tile_rows;
      const auto i = at * columns + column;
      loaded[k] = at < end ? flushed(number(g[i])) : value{0};
      masked[k] = y && at < end && !(flushed(number(y[i])) > 0);
    }
    for (unsigned k = 0; k < batch; ++k) {
      if (masked[k]) {
        loaded[k] = 0;
        g[(row + k * tile_rows) * columns + column] = element<T>(value{0});
      }
      sum += loaded[k];
    }
  }
  of_thread[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (auto half = tile_rows / 2; half > 0; half /= 2) {
    if (threadIdx.y < half)
      of_thread[threadIdx.y][threadIdx.x] +=
        of_thread[threadIdx.y + half][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < columns)
    put(blockIdx.y, column, of_thread[0][threadIdx.x]);
}

template <class T>
void start_columns(op_call& call, bool relu) {
  using value = number_of<T>;
  auto& gradient = call.grad_out[0];
  const auto columns = std::size_t(gradient.dims().back());
  const auto rows = columns ? gradient.size() / columns : 0;
  auto* const g = mutable_elements<T>(gradient);
  const auto* const y = relu ? elements<T>(call.out[0]) : nullptr;
  if (!call.wants(2)) {
    if (relu)
      run(call, gradient.size(), [=] __device__(std::size_t i) {
        if (!(flushed(number(y[i])) > 0))
          g[i] = element<T>(value{0});
      });
    return;
  }
  if (columns == 0)
    return;
  // Enough blocks to fill a device, with enough rows each.
  constexpr std::size_t wanted_blocks = 1024, min_rows = 64;
  const auto blocks = (columns + tile_columns - 1) / tile_columns;
  const auto parts = std::clamp<std::size_t>(
    std::min(wanted_blocks / blocks, rows / min_rows), 1, 1024);
  auto* const to = mutable_elements<T>(call.grad_in[2]);
  const bool accumulates = call.accumulates(2);
  const auto put_sum = [=] __device__(std::size_t column, value sum) {
    put(to[column], sum, accumulates);
  };
  const auto start = [&](const auto& put) {
    sum_columns<<<dim3(static_cast<unsigned>(blocks),
                       static_cast<unsigned>(parts)),
                  dim3(tile_columns, tile_rows), 0, compute_stream(call)>>>(
      g, y, rows, columns, (rows + parts - 1) / parts, put);
    check_launch(call, cudaGetLastError());
  };
  if (parts == 1)
    return start([=] __device__(std::size_t, std::size_t column, value sum) {
      put_sum(column, sum);
    });
  tensor sums{{{static_cast<std::int64_t>(parts * columns)},
               std::is_same_v<value, double> ? dtype::float64 : dtype::float32},
              call.on};
  auto* const of_parts = mutable_elements<value>(sums);
  start([=] __device__(std::size_t part, std::size_t column, value sum) {
    of_parts[part * columns + column] = sum;
  });
  check_launch(
    call, add_parts(of_parts, parts, columns, put_sum, compute_stream(call)));
}

} // namespace

void add_bias(const op_call& call, const tensor& x, const tensor& bias,
              activation f, tensor& y) {
  const bool relu = f == activation::relu;
  with_element_type(y.type(), [&]<class T>(T) {
    if (x.type() == y.type())
      start_bias<T, T>(call, x, bias, relu, y);
    else
      start_bias<number_of<T>, T>(call, x, bias, relu, y);
  });
}

void apply_relu(const op_call& call, tensor& y) {
  with_element_type(y.type(), [&]<class T>(T) { start_relu<T>(call, y); });
}

void mask_and_sum_columns(op_call& call, activation f) {
  const bool relu = f == activation::relu;
  with_element_type(call.grad_out[0].type(),
                    [&]<class T>(T) { start_columns<T>(call, relu); });
}

} // namespace troupe::cuda
