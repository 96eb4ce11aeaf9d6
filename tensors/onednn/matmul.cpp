#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/onednn/primitive_cache.hpp"

#include <algorithm>

namespace troupe::onednn {

namespace {

prepared_primitive prepare(const matmul& p) {
  const layout a{{p.m, p.k}, f32, p.a_transposed ? tag::ba : tag::ab};
  const layout b{{p.k, p.n}, f32, p.b_transposed ? tag::ba : tag::ab};
  const layout c{{p.m, p.n}, f32, tag::ab};
  const layout bias{{1, p.n}, f32, tag::ab};
  auto attributes = our_attributes();
  dnnl::post_ops after;
  if (p.add)
    after.append_sum(1.0f);
  attributes.set_post_ops(after);
  const auto description =
    p.bias ? dnnl::matmul::desc{a, b, bias, c} : dnnl::matmul::desc{a, b, c};
  const dnnl::matmul::primitive_desc made{description, attributes,
                                          cpu_engine()};
  prepared_primitive out{dnnl::matmul{made}, made.scratchpad_desc()};
  out.bind(DNNL_ARG_SRC, a).bind(DNNL_ARG_WEIGHTS, b).bind(DNNL_ARG_DST, c);
  return p.bias ? out.bind(DNNL_ARG_BIAS, bias) : out;
}

/// Computes a product with m = 1 by dnnl_sgemm, which copies no operand.
void run_row(const matmul& p, const float* a, const float* b, const float* bias,
             float* c) {
  flush_denormals::include_op_threads();
  dnnl_sgemm('N', p.b_transposed ? 'T' : 'N', 1, p.n, p.k, 1, a, p.k, b,
             p.b_transposed ? p.k : p.n, p.add ? 1 : 0, c, p.n);
  if (p.bias)
    kernels().bias_add(c, bias, 1, std::size_t(p.n));
}

/// Computes a product with k = 0: all its elements are 0, plus the bias.
void run_empty(const matmul& p, const float* bias, float* c) {
  if (!p.add)
    std::fill_n(c, p.m * p.n, 0.0f);
  if (p.bias)
    kernels().bias_add(c, bias, std::size_t(p.m), std::size_t(p.n));
}

} // namespace

void run(const matmul& p, const float* a, const float* b, const float* bias,
         float* c) {
  if (p.m == 0 || p.n == 0)
    return;
  if (p.k == 0)
    return run_empty(p, bias, c);
  if (p.m == 1 && !p.a_transposed)
    return run_row(p, a, b, bias, c);
  auto& primitives = cache();
  auto& prepared = find_or_prepare(primitives.matmuls, p, prepare);
  if (p.bias)
    primitives.run(prepared, {a, b, c, bias});
  else
    primitives.run(prepared, {a, b, c});
}

} // namespace troupe::onednn
