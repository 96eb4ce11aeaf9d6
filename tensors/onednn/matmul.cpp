#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/onednn/primitive_cache.hpp"

#include <algorithm>

namespace troupe::onednn {

namespace {

prepared_primitive prepare(const typed<matmul>& key) {
  const auto& p = key.what;
  const auto in = data_type_of(key.types.in);
  const layout a{{p.m, p.k}, in, p.a_transposed ? tag::ba : tag::ab};
  const layout b{{p.k, p.n}, in, p.b_transposed ? tag::ba : tag::ab};
  const layout c{{p.m, p.n}, data_type_of(key.types.out), tag::ab};
  const layout bias{{1, p.n}, in, tag::ab};
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
template <class T>
void run_empty(const matmul& p, const T* bias, T* c) {
  if (!p.add)
    std::fill_n(c, p.m * p.n, T(0.0f));
  if (p.bias)
    for (std::int64_t i = 0; i < p.m * p.n; ++i)
      c[i] = T(0.0f + float(bias[i % p.n]));
}

} // namespace

template <class T>
void run(const matmul& p, const T* a, const T* b,
         const std::type_identity_t<T>* bias, T* c) {
  if (p.m == 0 || p.n == 0)
    return;
  if (p.k == 0)
    return run_empty(p, bias, c);
  if constexpr (std::is_same_v<T, float>)
    if (p.m == 1 && !p.a_transposed)
      return run_row(p, a, b, bias, c);
  auto& primitives = cache();
  const typed<matmul> key{p, operand_types::of<T, T>()};
  auto& prepared = find_or_prepare(primitives.matmuls, key, prepare);
  if (p.bias)
    primitives.run(prepared, {a, b, c, bias});
  else
    primitives.run(prepared, {a, b, c});
}

template void run(const matmul&, const float*, const float*, const float*,
                  float*);
template void run(const matmul&, const bfloat16*, const bfloat16*,
                  const bfloat16*, bfloat16*);

} // namespace troupe::onednn
