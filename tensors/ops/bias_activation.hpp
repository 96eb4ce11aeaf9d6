#pragma once

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/op.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe::ops {

/// Starts the backward pass of a fused op whose input 2 is a bias over the last
/// axis. Multiplies `grad_out` in place by the derivative of the activation.
/// Then writes the column sums of `grad_out` to the gradient of the bias, if it
/// is requested.
inline void mask_and_sum_columns(op_call& c, activation f) {
  auto* g = c.grad_out[0].mutable_data<float>().data();
  const auto* y =
    c.out.empty() || !c.out[0] ? nullptr : c.out[0].data<float>().data();
  const auto columns = std::size_t(c.grad_out[0].dims().back());
  const auto rows = columns ? c.grad_out[0].size() / columns : 0;
  const auto& k = kernels();
  if (c.wants(2)) {
    auto* sums = c.grad_in[2].mutable_data<float>().data();
    const auto sum = [&](std::size_t begin, std::size_t end) {
      if (f == activation::relu)
        k.masked_column_sums(g + begin, y + begin, rows, end - begin, columns,
                             sums + begin, c.accumulates(2));
      else
        k.column_sums(g + begin, rows, end - begin, columns, sums + begin,
                      c.accumulates(2));
    };
    for_ranges(columns, rows * columns, sum, 16);
  } else if (f == activation::relu) {
    for_elements(rows * columns, [&](std::size_t begin, std::size_t end) {
      k.relu_mask(g + begin, y + begin, end - begin);
    });
  }
}

/// Returns the elements of a tensor in bfloat16, as the kernels take them.
inline std::uint16_t* bits_of(const tensor& x) {
  return reinterpret_cast<std::uint16_t*>(x.raw());
}

/// `mask_and_sum_columns` for a call in bfloat16. Adds in float32.
inline void mask_and_sum_columns_bfloat16(op_call& c, activation f) {
  auto* g = bits_of(c.grad_out[0]);
  const auto columns = std::size_t(c.grad_out[0].dims().back());
  const auto elements = c.grad_out[0].size();
  const auto& k = kernels();
  if (f == activation::relu)
    for_elements(elements, [&](std::size_t begin, std::size_t end) {
      k.relu_mask_bfloat16(g + begin, bits_of(c.out[0]) + begin, end - begin);
    });
  if (!c.wants(2))
    return;
  auto sums = c.accumulates(2) ? c.grad_in[2].as(dtype::float32)
                               : tensor{c.grad_in[2].dims()};
  auto* to = sums.mutable_data<float>().data();
  for_ranges(
    columns, elements,
    [&](std::size_t begin, std::size_t end) {
      k.column_sums_bfloat16(g + begin, columns ? elements / columns : 0,
                             end - begin, columns, to + begin,
                             c.accumulates(2));
    },
    16);
  c.grad_in[2].copy_from(sums.as(dtype::bfloat16));
}

/// Computes relu in place, of elements in bfloat16.
inline void relu_bfloat16(tensor& x) {
  auto* bits = bits_of(x);
  for_elements(x.size(), [&](std::size_t begin, std::size_t end) {
    kernels().relu_bfloat16(bits + begin, end - begin);
  });
}

} // namespace troupe::ops
