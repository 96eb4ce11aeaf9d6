#include "troupe/tensors/ops/concat.hpp"

#include "troupe/tensors/cuda/launch.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"

namespace troupe::cuda {

namespace {

/// Where the elements of one input are in the result.
struct part {
  std::size_t count = 0; ///< Elements that are contiguous.
  std::size_t of_block =
    0;                    ///< Elements of the result from one run to the next.
  std::size_t offset = 0; ///< Of the first run.

  __device__ std::size_t operator()(std::size_t k) const {
    return k / count * of_block + offset + k % count;
  }
};

part first_part(const op_call& c, const shape& out) {
  const auto axis = c.options.as<ops::joined_axis>().axis;
  return {0, out.axes(axis, out.rank()).elements(), 0};
}

/// Makes `x` the part of input `i`, from that of the input before it.
void advance(part& x, const op_call& c, std::size_t i) {
  const auto& dims = c.in[i].dims();
  const auto axis = c.options.as<ops::joined_axis>().axis;
  x.offset += x.count;
  x.count = dims.axes(axis, dims.rank()).elements();
}

template <class T>
void forward(op_call& c) {
  auto* const y = mutable_elements<T>(c.out[0]);
  auto place = first_part(c, c.out[0].dims());
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    advance(place, c, i);
    const auto* const x = elements<T>(c.in[i]);
    run(c, c.in[i].size(),
        [=] __device__(std::size_t k) { y[place(k)] = x[k]; });
  }
}

template <class T>
void backward(op_call& c) {
  const auto* const gy = elements<T>(c.grad_out[0]);
  auto place = first_part(c, c.grad_out[0].dims());
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    advance(place, c, i);
    if (!c.wants(i))
      continue;
    auto* const gx = mutable_elements<T>(c.grad_in[i]);
    const bool accumulates = c.accumulates(i);
    run(c, c.in[i].size(), [=] __device__(std::size_t k) {
      put(gx[k], gy[place(k)], accumulates);
    });
  }
}

constexpr std::array rows{
  op_kernels{dtype::float32, forward<float>, backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, forward<double>, backward<double>,
             device_kind::cuda},
  op_kernels{dtype::int32, forward<std::int32_t>, nullptr, device_kind::cuda},
  op_kernels{dtype::int64, forward<std::int64_t>, nullptr, device_kind::cuda},
  op_kernels{dtype::uint8, forward<std::uint8_t>, nullptr, device_kind::cuda},
  op_kernels{dtype::boolean, forward<std::uint8_t>, nullptr, device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> concat_kernels() {
  static const std::array list{kernels_of_op{&ops::concat, rows}};
  return list;
}

} // namespace troupe::cuda
