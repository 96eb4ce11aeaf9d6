#pragma once

#include "troupe/tensors/kernels.hpp"
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

} // namespace troupe::ops
