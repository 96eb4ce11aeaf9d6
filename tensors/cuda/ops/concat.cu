#include "troupe/tensors/ops/concat.hpp"

#include "troupe/tensors/cuda/elements.cuh"
#include "troupe/tensors/cuda/launch.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"

namespace troupe::cuda {

namespace {

/// Where the elements of one input are in the result. All members count units:
/// elements, or 16 bytes.
struct part {
  std::size_t count = 0;    ///< Units that are contiguous.
  std::size_t of_block = 0; ///< Units of the result from one run to the next.
  std::size_t offset = 0;   ///< Of the first run.

  __device__ std::size_t operator()(std::size_t k) const {
    return k / count * of_block + offset + k % count;
  }

  bool is_multiple_of(std::size_t units) const {
    return count % units == 0 && of_block % units == 0 && offset % units == 0;
  }
  part operator/(std::size_t units) const {
    return {count / units, of_block / units, offset / units};
  }
};

/// Calls `fn(i, part)` for each input i of a call.
template <class F>
void each_part(const op_call& c, const shape& out, const F& fn) {
  const auto axis = c.options.as<ops::joined_axis>().axis;
  part x{0, out.axes(axis, out.rank()).elements(), 0};
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    const auto& dims = c.in[i].dims();
    x.offset += x.count;
    x.count = dims.axes(axis, dims.rank()).elements();
    fn(i, x);
  }
}

/// Copies n units of an input to their place in the result, or back.
template <bool back, class Unit>
void start_copy(const op_call& c, const part& place, std::size_t n,
                const tensor& from, tensor& to) {
  const auto* const source = elements<Unit>(from);
  auto* const target = mutable_elements<Unit>(to);
  run(c, n, [=] __device__(std::size_t k) {
    target[back ? k : place(k)] = source[back ? place(k) : k];
  });
}

/// Copies n elements of an input to their place in the result, or back.
/// @param T an unsigned integer of the size of an element.
template <bool back, class T>
void copy_part(const op_call& c, const part& place, std::size_t n,
               const tensor& from, tensor& to) {
  constexpr int lanes = 16 / sizeof(T);
  if (place.is_multiple_of(lanes)
      && are_aligned<lanes>(elements<T>(from), elements<T>(to)))
    start_copy<back, uint4>(c, place / lanes, n / lanes, from, to);
  else
    start_copy<back, T>(c, place, n, from, to);
}

/// @param T an unsigned integer of the size of an element.
template <class T>
void forward(op_call& c) {
  each_part(c, c.out[0].dims(), [&](std::size_t i, const part& place) {
    copy_part<false, T>(c, place, c.in[i].size(), c.in[i], c.out[0]);
  });
}

/// Adds what belongs to an input to its gradient.
template <class T>
void add_part(const op_call& c, const part& place, const tensor& from,
              tensor& to) {
  const auto* const gy = elements<T>(from);
  auto* const gx = mutable_elements<T>(to);
  run(c, to.size(), [=] __device__(std::size_t k) {
    put(gx[k], number(gy[place(k)]), true);
  });
}

template <class T, class Bits>
void backward(op_call& c) {
  each_part(c, c.grad_out[0].dims(), [&](std::size_t i, const part& place) {
    if (!c.wants(i))
      return;
    auto& gradient = c.grad_in[i];
    if (!c.accumulates(i))
      return copy_part<true, Bits>(c, place, gradient.size(), c.grad_out[0],
                                   gradient);
    add_part<T>(c, place, c.grad_out[0], gradient);
  });
}

template <class Bits>
constexpr op_kernels row(dtype type, op_kernel backward = nullptr) {
  return {.type = type,
          .forward = forward<Bits>,
          .backward = backward,
          .device = device_kind::cuda};
}

constexpr std::array rows{
  row<std::uint32_t>(dtype::float32, backward<float, std::uint32_t>),
  row<std::uint64_t>(dtype::float64, backward<double, std::uint64_t>),
  row<std::uint16_t>(dtype::bfloat16, backward<bfloat16, std::uint16_t>),
  row<std::uint32_t>(dtype::int32),
  row<std::uint64_t>(dtype::int64),
  row<std::uint8_t>(dtype::uint8),
  row<std::uint8_t>(dtype::boolean),
};

} // namespace

std::span<const kernels_of_op> concat_kernels() {
  static const std::array list{kernels_of_op{&ops::concat, rows}};
  return list;
}

} // namespace troupe::cuda
