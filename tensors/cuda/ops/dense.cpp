#include "troupe/tensors/ops/dense.hpp"

#include "troupe/tensors/cuda/cublas/product.hpp"
#include "troupe/tensors/cuda/ops/bias_activation.hpp"
#include "troupe/tensors/cuda/ops/kernels.hpp"

#include <array>

namespace troupe::cuda {

namespace {

/// Computes a product. The result is zero or unchanged if nothing is added.
void multiply(const op_call& c, const product& form, const tensor& a,
              const tensor& b, tensor& out) {
  if (out.size() == 0)
    return;
  if (form.k > 0)
    return cuda::multiply(c, form, a, b, {}, out);
  if (!form.add)
    out.set_zero();
}

// -- dense --------------------------------------------------------------------

void dense_forward(op_call& c) {
  const auto &x = c.in[0], &w = c.in[1], &bias = c.in[2];
  auto& y = c.out[0];
  const auto f = c.options.as<activation>();
  product form{.m = x.dims()[0], .n = w.dims()[1], .k = w.dims()[0]};
  const bool is_empty = form.k == 0 || y.size() == 0;
  if (c.type == dtype::float64 || is_empty) {
    multiply(c, form, x, w, y);
    return add_bias(c, y, bias, f, y);
  }
  if (c.type == dtype::bfloat16 && (form.k % 8 != 0 || form.n % 8 != 0)) {
    // Kernels for such extents would round before they add the bias.
    tensor products{{y.dims(), dtype::float32}, c.on};
    cuda::multiply(c, form, x, w, {}, products);
    return add_bias(c, products, bias, f, y);
  }
  form.bias = true;
  cuda::multiply(c, form, x, w, bias, y);
  if (f == activation::relu)
    apply_relu(c, y); // that of cuBLASLt turns NaN into 0
}

void dense_backward(op_call& c) {
  mask_and_sum_columns(c, c.options.as<activation>());
  const auto &x = c.in[0], &w = c.in[1], &g = c.grad_out[0];
  const auto n = x.dims()[0], in = w.dims()[0], out = w.dims()[1];
  if (c.wants(1))
    multiply(c,
             {.m = in,
              .n = out,
              .k = n,
              .a_transposed = true,
              .add = c.accumulates(1)},
             x, g, c.grad_in[1]);
  if (c.wants(0))
    multiply(c,
             {.m = n,
              .n = in,
              .k = out,
              .b_transposed = true,
              .add = c.accumulates(0)},
             g, w, c.grad_in[0]);
}

// -- matmul -------------------------------------------------------------------

/// The product of a call, without the elements.
product form_of(const op_call& c) {
  const auto [ta, tb] = c.options.as<ops::matmul_options>();
  const auto &a = c.in[0].dims(), &b = c.in[1].dims();
  return {.m = a[ta ? 1 : 0],
          .n = b[tb ? 0 : 1],
          .k = a[ta ? 0 : 1],
          .a_transposed = ta,
          .b_transposed = tb};
}

void matmul_forward(op_call& c) {
  multiply(c, form_of(c), c.in[0], c.in[1], c.out[0]);
}

// The products are those of the CPU (tensors/ops/dense.cpp).
void matmul_backward(op_call& c) {
  const auto p = form_of(c);
  const auto &a = c.in[0], &b = c.in[1], &g = c.grad_out[0];
  if (c.wants(0) && p.a_transposed)
    multiply(c,
             {.m = p.k,
              .n = p.m,
              .k = p.n,
              .a_transposed = p.b_transposed,
              .b_transposed = true,
              .add = c.accumulates(0)},
             b, g, c.grad_in[0]);
  else if (c.wants(0))
    multiply(c,
             {.m = p.m,
              .n = p.k,
              .k = p.n,
              .b_transposed = !p.b_transposed,
              .add = c.accumulates(0)},
             g, b, c.grad_in[0]);
  if (c.wants(1) && p.b_transposed)
    multiply(c,
             {.m = p.n,
              .n = p.k,
              .k = p.m,
              .a_transposed = true,
              .b_transposed = p.a_transposed,
              .add = c.accumulates(1)},
             g, a, c.grad_in[1]);
  else if (c.wants(1))
    multiply(c,
             {.m = p.k,
              .n = p.n,
              .k = p.m,
              .a_transposed = !p.a_transposed,
              .add = c.accumulates(1)},
             a, g, c.grad_in[1]);
}

constexpr std::array dense_rows{
  op_kernels{dtype::float32, dense_forward, dense_backward, device_kind::cuda},
  op_kernels{dtype::float64, dense_forward, dense_backward, device_kind::cuda},
  op_kernels{dtype::bfloat16, dense_forward, dense_backward, device_kind::cuda},
};

constexpr std::array matmul_rows{
  op_kernels{dtype::float32, matmul_forward, matmul_backward,
             device_kind::cuda},
  op_kernels{dtype::float64, matmul_forward, matmul_backward,
             device_kind::cuda},
  op_kernels{dtype::bfloat16, matmul_forward, matmul_backward,
             device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> dense_kernels() {
  static const std::array list{
    kernels_of_op{&ops::dense, dense_rows},
    kernels_of_op{&ops::matmul, matmul_rows},
  };
  return list;
}

} // namespace troupe::cuda
