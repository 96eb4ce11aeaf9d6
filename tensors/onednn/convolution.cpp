#include "troupe/tensors/onednn/primitive_cache.hpp"

#include <algorithm>

namespace troupe::onednn {

namespace {

/// Memory layouts of a convolution in oneDNN. Extents are given as [n, c, h, w]
/// for every layout. oneDNN chooses the layout of `weights`; `flat_weights` is
/// the layout of the library's tensors.
struct convolution_layouts {
  /// The dtypes of input, output and weights.
  struct data_types {
    dtype input, output, weights;
  };

  convolution_layouts(const conv_geometry& c, const data_types& types)
    : input{{c.n, c.ci, c.h, c.w}, data_type_of(types.input), tag::nhwc},
      output{{c.n, c.co, c.oh, c.ow}, data_type_of(types.output), tag::nhwc},
      weights{{c.co, c.ci, c.kh, c.kw}, data_type_of(types.weights), tag::any},
      flat_weights{
        {c.co, c.ci, c.kh, c.kw}, data_type_of(types.weights), tag::hwio},
      bias{{c.co}, data_type_of(types.weights), tag::a},
      strides{c.stride_h, c.stride_w},
      before{c.top, c.left},
      after{c.bottom, c.right} {}

  dnnl::convolution_forward::primitive_desc forward() const {
    return {{dnnl::prop_kind::forward_training,
             dnnl::algorithm::convolution_direct, input, weights, bias, output,
             strides, before, after},
            our_attributes(),
            cpu_engine()};
  }

  layout input, output, weights, flat_weights, bias;
  dnnl::memory::dims strides, before, after;
};

/// The forward pass whose gradient a primitive computes. oneDNN requires it as
/// a hint.
dnnl::convolution_forward::primitive_desc
hint(const typed<conv_geometry>& key) {
  const auto in = key.types.in;
  return convolution_layouts{key.what, {in, in, in}}.forward();
}

prepared_primitive prepare_reorder(const layout& from, const layout& to) {
  const dnnl::reorder::primitive_desc made{cpu_engine(), from, cpu_engine(), to,
                                           our_attributes()};
  prepared_primitive out{dnnl::reorder{made}, made.scratchpad_desc()};
  return out.bind(DNNL_ARG_FROM, from).bind(DNNL_ARG_TO, to);
}

/// Combines the primitive `main` with the reorders of its weights between the
/// layouts `flat_weights` and `own`. The primitive chose the layout `own`.
prepared_convolution with_reorders(prepared_primitive main,
                                   const convolution_layouts& d,
                                   const layout& own) {
  return {std::move(main), prepare_reorder(d.flat_weights, own),
          prepare_reorder(own, d.flat_weights), own.get_size()};
}

prepared_convolution prepare_forward(const typed<conv_geometry>& key) {
  const auto [in, out] = key.types;
  const convolution_layouts d{key.what, {in, out, in}};
  const auto made = d.forward();
  prepared_primitive main{dnnl::convolution_forward{made},
                          made.scratchpad_desc()};
  main.bind(DNNL_ARG_SRC, d.input)
    .bind(DNNL_ARG_WEIGHTS, made.weights_desc())
    .bind(DNNL_ARG_BIAS, d.bias)
    .bind(DNNL_ARG_DST, d.output);
  return with_reorders(std::move(main), d, made.weights_desc());
}

prepared_convolution prepare_backward_data(const typed<conv_geometry>& key) {
  const auto [in, out] = key.types;
  const convolution_layouts d{key.what, {out, in, in}};
  const dnnl::convolution_backward_data::primitive_desc made{
    {dnnl::algorithm::convolution_direct, d.input, d.weights, d.output,
     d.strides, d.before, d.after},
    our_attributes(),
    cpu_engine(),
    hint(key)};
  prepared_primitive main{dnnl::convolution_backward_data{made},
                          made.scratchpad_desc()};
  main.bind(DNNL_ARG_DIFF_DST, d.output)
    .bind(DNNL_ARG_WEIGHTS, made.weights_desc())
    .bind(DNNL_ARG_DIFF_SRC, d.input);
  return with_reorders(std::move(main), d, made.weights_desc());
}

prepared_convolution prepare_backward_weights(const typed<conv_geometry>& key) {
  const auto [in, out] = key.types;
  const convolution_layouts d{key.what, {in, in, out}};
  const dnnl::convolution_backward_weights::primitive_desc made{
    {dnnl::algorithm::convolution_direct, d.input, d.weights, d.output,
     d.strides, d.before, d.after},
    our_attributes(),
    cpu_engine(),
    hint(key)};
  prepared_primitive main{dnnl::convolution_backward_weights{made},
                          made.scratchpad_desc()};
  main.bind(DNNL_ARG_SRC, d.input)
    .bind(DNNL_ARG_DIFF_DST, d.output)
    .bind(DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc());
  return with_reorders(std::move(main), d, made.diff_weights_desc());
}

void* own_weights(kernel_cache::primitive_cache& all,
                  const prepared_convolution& p) {
  return all.reserve(all.own_weights, p.own_bytes);
}

template <class In, class Out>
typed<conv_geometry> key_of(const conv_geometry& c) {
  return {c, operand_types::of<In, Out>()};
}

} // namespace

template <class In, class Out>
void forward(const conv_geometry& c, const In* x, const In* weights,
             const In* bias, Out* y) {
  if (c.n == 0)
    return;
  auto& all = cache();
  auto& p = find_or_prepare(all.forward, key_of<In, Out>(c), prepare_forward);
  const auto* own = own_weights(all, p);
  all.run(p.to_own, {weights, own});
  all.run(p.main, {x, own, bias, y});
}

template <class In, class Out>
void backward_data(const conv_geometry& c, const In* gy, const In* weights,
                   Out* gx) {
  if (c.n == 0)
    return;
  auto& all = cache();
  auto& p = find_or_prepare(all.backward_data, key_of<In, Out>(c),
                            prepare_backward_data);
  const auto* own = own_weights(all, p);
  all.run(p.to_own, {weights, own});
  all.run(p.main, {gy, own, gx});
}

template <class In, class Out>
void backward_weights(const conv_geometry& c, const In* x, const In* gy,
                      Out* gw) {
  if (c.n == 0) {
    std::fill_n(gw, c.kh * c.kw * c.ci * c.co, Out(0.0f));
    return;
  }
  auto& all = cache();
  auto& p = find_or_prepare(all.backward_weights, key_of<In, Out>(c),
                            prepare_backward_weights);
  const auto* own = own_weights(all, p);
  all.run(p.main, {x, gy, own});
  all.run(p.from_own, {own, gw});
}

template void forward(const conv_geometry&, const float*, const float*,
                      const float*, float*);
template void backward_data(const conv_geometry&, const float*, const float*,
                            float*);
template void backward_weights(const conv_geometry&, const float*, const float*,
                               float*);
template void forward(const conv_geometry&, const bfloat16*, const bfloat16*,
                      const bfloat16*, bfloat16*);
template void forward(const conv_geometry&, const bfloat16*, const bfloat16*,
                      const bfloat16*, float*);
template void backward_data(const conv_geometry&, const bfloat16*,
                            const bfloat16*, float*);
template void backward_data(const conv_geometry&, const bfloat16*,
                            const bfloat16*, bfloat16*);
template void backward_weights(const conv_geometry&, const bfloat16*,
                               const bfloat16*, float*);
template void backward_weights(const conv_geometry&, const bfloat16*,
                               const bfloat16*, bfloat16*);

} // namespace troupe::onednn
