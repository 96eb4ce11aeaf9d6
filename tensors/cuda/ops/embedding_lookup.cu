#include "troupe/tensors/ops/embedding_lookup.hpp"

#include "troupe/tensors/cuda/launch.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/sparse_rows.hpp"

namespace troupe::cuda {

namespace {

using kind = invalid_value::kind;

std::size_t row_size(const shape& table) {
  return table.axes(1, table.rank()).elements();
}

/// @param T an unsigned integer of the size of an element.
template <class T, class Id>
void look_up(op_call& c) {
  const auto* const table = elements<T>(c.in[0]);
  const auto* const ids = elements<Id>(c.in[1]);
  auto* const y = mutable_elements<T>(c.out[0]);
  const auto row = row_size(c.in[0].dims());
  const auto rows = c.in[0].dims().front();
  auto* const invalid = invalid_value_of(c.on);
  run(c, c.out[0].size(), [=] __device__(std::size_t i) {
    const auto at = i / row;
    const auto id = static_cast<std::int64_t>(ids[at]);
    if (id >= 0 && id < rows) {
      y[i] = table[std::size_t(id) * row + i % row];
      return;
    }
    if (atomicCAS(&invalid->what, int(kind::none), int(kind::id)) == 0) {
      invalid->value = id;
      invalid->position = static_cast<long long>(at);
      invalid->limit = rows;
    }
    y[i] = T{};
  });
}

template <class T>
void forward(op_call& c) {
  c.in[1].type() == dtype::int32 ? look_up<T, std::int32_t>(c)
                                 : look_up<T, std::int64_t>(c);
}

/// Adds the rows of `gy` to those of the gradient. The block of the first place
/// with an id adds all rows with that id, in the order of the places, so the
/// bits are those of the CPU.
template <class T>
__global__ void add_rows(T* gradient, const T* gy, const std::int64_t* ids,
                         std::size_t places, std::size_t row,
                         std::int64_t rows) {
  for (std::size_t place = blockIdx.x; place < places; place += gridDim.x) {
    const auto id = ids[place];
    bool is_later = false;
    for (std::size_t i = threadIdx.x; i < place; i += blockDim.x)
      is_later = is_later || ids[i] == id;
    if (__syncthreads_or(is_later) || id < 0 || id >= rows)
      continue;
    for (std::size_t k = threadIdx.x; k < row; k += blockDim.x) {
      T sum = gradient[std::size_t(id) * row + k];
      for (auto i = place; i < places; ++i)
        if (ids[i] == id)
          sum += gy[i * row + k];
      gradient[std::size_t(id) * row + k] = sum;
    }
  }
}

/// @param gradient [table] T
template <class T>
void start_adding(const op_call& c, tensor& gradient, const tensor& gy,
                  const tensor& ids) {
  const auto places = ids.size();
  if (places == 0 || gradient.size() == 0)
    return;
  const auto& table = gradient.dims();
  add_rows<<<static_cast<unsigned>(std::min<std::size_t>(places, 65'535)), 128,
             0, compute_stream(c)>>>(
    mutable_elements<T>(gradient), elements<T>(gy), elements<std::int64_t>(ids),
    places, row_size(table), table.front());
  check_launch(c, cudaGetLastError());
}

template <class T>
void backward(op_call& c) {
  if (!c.wants_rows(0) && !c.wants(0))
    return;
  const auto& table = c.in[0].dims();
  const auto ids = c.in[1].as(dtype::int64);
  if (c.wants_rows(0)) {
    // The gradient outlives the ids, which the caller may change.
    const shape count{static_cast<std::int64_t>(ids.size())};
    c.grad_rows[0] = sparse_rows{
      table, ids.to({}).reshaped(count),
      c.grad_out[0].to({}).reshaped(table.with_extent(0, count.front()))};
    return;
  }
  auto& gradient = c.grad_in[0];
  if (!c.accumulates(0))
    gradient.set_zero();
  if (gradient.type() != dtype::bfloat16)
    return start_adding<T>(c, gradient, c.grad_out[0], ids);
  // Added in float32 and rounded once.
  auto sum = gradient.as(dtype::float32);
  start_adding<float>(c, sum, c.grad_out[0].as(dtype::float32), ids);
  gradient.copy_from(sum.as(dtype::bfloat16));
}

constexpr std::array rows{
  op_kernels{dtype::float32, forward<std::uint32_t>, backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, forward<std::uint64_t>, backward<double>,
             device_kind::cuda},
  op_kernels{dtype::bfloat16, forward<std::uint16_t>, backward<float>,
             device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> embedding_lookup_kernels() {
  static const std::array list{kernels_of_op{&ops::embedding_lookup, rows}};
  return list;
}

} // namespace troupe::cuda
