#include "troupe/tensors/ops/dense.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/onednn/onednn.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/bias_activation.hpp"
#include "troupe/tensors/ops/check.hpp"

#include <algorithm>

namespace troupe {

namespace {

// -- dense --------------------------------------------------------------------

op_outputs infer_dense(std::span<const tensor_spec> in, const op_options&) {
  const auto &x = in[0].dims, &w = in[1].dims, &b = in[2].dims;
  ops::require(x.rank() == 2 && w.rank() == 2 && b.rank() == 1 && x[1] == w[0]
                 && w[1] == b[0],
               "dense x [n, in], w [in, out], b [out]", in);
  return {{x[0], w[1]}, in[0].type};
}

void dense_forward(op_call& c) {
  const auto &x = c.in[0], &w = c.in[1];
  const auto m = x.dims()[0], n = w.dims()[1];
  const auto columns = std::size_t(n);
  const auto* b = c.in[2].data<float>().data();
  auto* y = c.out[0].mutable_data<float>().data();
  const bool relu = c.options.as<activation>() == activation::relu;
  onednn::run({.m = m, .n = n, .k = w.dims()[0], .bias = !relu},
              x.data<float>().data(), w.data<float>().data(), b, y);
  if (relu)
    for_ranges(std::size_t(m), std::size_t(m) * columns,
               [&](std::size_t begin, std::size_t end) {
                 kernels().bias_add_relu(y + begin * columns, b, end - begin,
                                         columns);
               });
}

void dense_forward_bfloat16(op_call& c) {
  const auto &x = c.in[0], &w = c.in[1];
  onednn::run(
    {.m = x.dims()[0], .n = w.dims()[1], .k = w.dims()[0], .bias = true},
    x.data<bfloat16>().data(), w.data<bfloat16>().data(),
    c.in[2].data<bfloat16>().data(), c.out[0].mutable_data<bfloat16>().data());
  if (c.options.as<activation>() == activation::relu)
    ops::relu_bfloat16(c.out[0]);
}

/// Computes the gradients of x and w.
/// @pre the activation's derivative is part of `grad_out`.
template <class T>
void dense_gradients(op_call& c) {
  const auto &x = c.in[0], &w = c.in[1];
  const auto n = x.dims()[0], in = w.dims()[0], out = w.dims()[1];
  const auto* g = c.grad_out[0].data<T>().data();
  if (c.wants(1))
    onednn::run({.m = in,
                 .n = out,
                 .k = n,
                 .a_transposed = true,
                 .add = c.accumulates(1)},
                x.data<T>().data(), g, nullptr,
                c.grad_in[1].template mutable_data<T>().data());
  if (c.wants(0))
    onednn::run({.m = n,
                 .n = in,
                 .k = out,
                 .b_transposed = true,
                 .add = c.accumulates(0)},
                g, w.data<T>().data(), nullptr,
                c.grad_in[0].template mutable_data<T>().data());
}

void dense_backward(op_call& c) {
  ops::mask_and_sum_columns(c, c.options.as<activation>());
  dense_gradients<float>(c);
}

void dense_backward_bfloat16(op_call& c) {
  ops::mask_and_sum_columns_bfloat16(c, c.options.as<activation>());
  dense_gradients<bfloat16>(c);
}

void dense_reference_forward(op_call& c) {
  const auto x = c.in[0].data<double>(), w = c.in[1].data<double>(),
             b = c.in[2].data<double>();
  auto y = c.out[0].mutable_data<double>();
  const auto in = std::size_t(c.in[1].dims()[0]), out = b.size();
  const bool relu = c.options.as<activation>() == activation::relu;
  for (std::size_t element = 0; element < y.size(); ++element) {
    const auto i = element / out, j = element % out;
    double sum = b[j];
    for (std::size_t k = 0; k < in; ++k)
      sum += x[i * in + k] * w[k * out + j];
    y[element] = relu && sum < 0 ? 0 : sum;
  }
}

void dense_reference_backward(op_call& c) {
  const auto x = c.in[0].data<double>(), w = c.in[1].data<double>();
  const auto y = c.out[0].data<double>(), gy = c.grad_out[0].data<double>();
  const auto in = std::size_t(c.in[1].dims()[0]),
             out = std::size_t(c.in[1].dims()[1]);
  const bool relu = c.options.as<activation>() == activation::relu;
  for (std::size_t i = 0; i < c.grad_in.size(); ++i)
    if (c.wants(i) && !c.accumulates(i))
      std::ranges::fill(c.grad_in[i].mutable_data<double>(), 0);
  const auto into = [&](std::size_t i) {
    return c.wants(i) ? c.grad_in[i].mutable_data<double>().data() : nullptr;
  };
  auto *gx = into(0), *gw = into(1), *gb = into(2);
  for (std::size_t at = 0; at < gy.size(); ++at) {
    const auto i = at / out, j = at % out;
    const double g = relu && !(y[at] > 0) ? 0 : gy[at];
    if (gb)
      gb[j] += g;
    for (std::size_t k = 0; k < in; ++k) {
      if (gx)
        gx[i * in + k] += g * w[k * out + j];
      if (gw)
        gw[k * out + j] += g * x[i * in + k];
    }
  }
}

const std::array dense_cases{
  op_case{{{1, 1}, {1, 1}, {1}}, activation::none},
  op_case{{{3, 5}, {5, 7}, {7}}, activation::none},
  op_case{{{3, 5}, {5, 7}, {7}}, activation::relu},
  op_case{{{1, 33}, {33, 17}, {17}}, activation::relu},
  op_case{{{0, 4}, {4, 3}, {3}}, activation::relu},
  op_case{{{67, 129}, {129, 10}, {10}}, activation::none},
  op_case{{{65, 31}, {31, 127}, {127}}, activation::relu},
  op_case{{{2, 784}, {784, 512}, {512}}, activation::relu, -1, 1, 3e-5},
};

constexpr std::array dense_kernels{
  op_kernels{dtype::float32, dense_forward, dense_backward},
  op_kernels{dtype::float64, dense_reference_forward, dense_reference_backward},
  op_kernels{.type = dtype::bfloat16,
             .forward = dense_forward_bfloat16,
             .backward = dense_backward_bfloat16,
             .is_supported = onednn::supports_bfloat16},
};

// -- matmul -------------------------------------------------------------------

using ops::matmul_options;

onednn::matmul product_of(const op_call& c) {
  const auto [ta, tb] = c.options.as<matmul_options>();
  const auto &a = c.in[0].dims(), &b = c.in[1].dims();
  return {.m = a[ta ? 1 : 0],
          .n = b[tb ? 0 : 1],
          .k = a[ta ? 0 : 1],
          .a_transposed = ta,
          .b_transposed = tb};
}

op_outputs infer_matmul(std::span<const tensor_spec> in,
                        const op_options& options) {
  const auto [ta, tb] = options.as<matmul_options>();
  const auto &a = in[0].dims, &b = in[1].dims;
  ops::require(a.rank() == 2 && b.rank() == 2 && a[ta ? 0 : 1] == b[tb ? 1 : 0],
               "matmul [m, k] and [k, n]", in);
  return {{a[ta ? 1 : 0], b[tb ? 0 : 1]}, in[0].type};
}

template <class T>
void matmul_forward(op_call& c) {
  onednn::run(product_of(c), c.in[0].data<T>().data(), c.in[1].data<T>().data(),
              nullptr, c.out[0].template mutable_data<T>().data());
}

// A is a or its transpose, B is b or its transpose, and C = A B. gX is the
// gradient of X. Then
//   gA = gC B^T and gB = A^T gC.
// The gradient of a transposed a or b is transposed too.
template <class T>
void matmul_backward(op_call& c) {
  const auto p = product_of(c);
  const auto* a = c.in[0].data<T>().data();
  const auto* b = c.in[1].data<T>().data();
  const auto* g = c.grad_out[0].data<T>().data();
  if (c.wants(0)) {
    auto* ga = c.grad_in[0].template mutable_data<T>().data();
    if (p.a_transposed)
      onednn::run({.m = p.k,
                   .n = p.m,
                   .k = p.n,
                   .a_transposed = p.b_transposed,
                   .b_transposed = true,
                   .add = c.accumulates(0)},
                  b, g, nullptr, ga);
    else
      onednn::run({.m = p.m,
                   .n = p.k,
                   .k = p.n,
                   .b_transposed = !p.b_transposed,
                   .add = c.accumulates(0)},
                  g, b, nullptr, ga);
  }
  if (c.wants(1)) {
    auto* gb = c.grad_in[1].template mutable_data<T>().data();
    if (p.b_transposed)
      onednn::run({.m = p.n,
                   .n = p.k,
                   .k = p.m,
                   .a_transposed = true,
                   .b_transposed = p.a_transposed,
                   .add = c.accumulates(1)},
                  g, a, nullptr, gb);
    else
      onednn::run({.m = p.k,
                   .n = p.n,
                   .k = p.m,
                   .a_transposed = !p.a_transposed,
                   .add = c.accumulates(1)},
                  a, g, nullptr, gb);
  }
}

/// Calls `fn(i, j, k)` for every product a[i] * b[j] that is added to c[k].
template <class F>
void each_product(const onednn::matmul& p, F fn) {
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t l = 0; l < p.k; ++l)
        fn(std::size_t(p.a_transposed ? l * p.m + i : i * p.k + l),
           std::size_t(p.b_transposed ? j * p.k + l : l * p.n + j),
           std::size_t(i * p.n + j));
}

void matmul_reference_forward(op_call& c) {
  const auto a = c.in[0].data<double>(), b = c.in[1].data<double>();
  auto y = c.out[0].mutable_data<double>();
  std::ranges::fill(y, 0);
  each_product(product_of(c),
               [&](auto i, auto j, auto at) { y[at] += a[i] * b[j]; });
}

void matmul_reference_backward(op_call& c) {
  const auto a = c.in[0].data<double>(), b = c.in[1].data<double>();
  const auto g = c.grad_out[0].data<double>();
  for (std::size_t side = 0; side < 2; ++side) {
    if (!c.wants(side))
      continue;
    auto to = c.grad_in[side].mutable_data<double>();
    if (!c.accumulates(side))
      std::ranges::fill(to, 0);
    each_product(product_of(c), [&](auto i, auto j, auto at) {
      to[side == 0 ? i : j] += g[at] * (side == 0 ? b[j] : a[i]);
    });
  }
}

const std::array matmul_cases{
  op_case{{{1, 1}, {1, 1}}, matmul_options{}},
  op_case{{{3, 7}, {7, 5}}, matmul_options{}},
  op_case{{{7, 3}, {7, 5}}, matmul_options{true, false}},
  op_case{{{3, 7}, {5, 7}}, matmul_options{false, true}},
  op_case{{{7, 3}, {5, 7}}, matmul_options{true, true}},
  op_case{{{33, 65}, {65, 17}}, matmul_options{}},
  op_case{{{65, 33}, {17, 65}}, matmul_options{true, true}},
};

constexpr std::array matmul_kernels{
  op_kernels{dtype::float32, matmul_forward<float>, matmul_backward<float>},
  op_kernels{dtype::float64, matmul_reference_forward,
             matmul_reference_backward},
  op_kernels{.type = dtype::bfloat16,
             .forward = matmul_forward<bfloat16>,
             .backward = matmul_backward<bfloat16>,
             .is_supported = onednn::supports_bfloat16},
};

} // namespace

const op ops::dense{
  .name = "dense",
  .inputs = three_inputs,
  .infer = infer_dense,
  .kernels = dense_kernels,
  .saves_outputs = true, // Relu's mask needs it.
  .cases = dense_cases,
  .formula = "f(x w + b)",
};

const op ops::matmul{
  .name = "matmul",
  .inputs = two_inputs,
  .infer = infer_matmul,
  .kernels = matmul_kernels,
  .cases = matmul_cases,
  .formula = "a b",
};

tensor dense(const tensor& x, const tensor& w, const tensor& b, activation f) {
  return apply(ops::dense, {x, w, b}, f);
}

tensor matmul(const tensor& a, const tensor& b, bool transpose_a,
              bool transpose_b) {
  return apply(ops::matmul, {a, b}, matmul_options{transpose_a, transpose_b});
}

} // namespace troupe
