#include "troupe/tensors/onednn/primitive_cache.hpp"

#include <algorithm>

namespace troupe::onednn {

namespace {

/// Memory layouts of a convolution in oneDNN. Extents are given as [n, c, h, w]
/// for every layout. oneDNN chooses the layout of `weights`; `flat_weights` is
/// the layout of the library's tensors.
struct convolution_layouts {
  explicit convolution_layouts(const convolution& c)
    : input{{c.n, c.ci, c.h, c.w}, f32, tag::nhwc},
      output{{c.n, c.co, c.oh, c.ow}, f32, tag::nhwc},
      weights{{c.co, c.ci, c.kh, c.kw}, f32, tag::any},
      flat_weights{{c.co, c.ci, c.kh, c.kw}, f32, tag::hwio},
      bias{{c.co}, f32, tag::a},
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
          prepare_reorder(own, d.flat_weights), own.get_size() / sizeof(float)};
}

prepared_convolution prepare_forward(const convolution& c) {
  const convolution_layouts d{c};
  const auto made = d.forward();
  prepared_primitive main{dnnl::convolution_forward{made},
                          made.scratchpad_desc()};
  main.bind(DNNL_ARG_SRC, d.input)
    .bind(DNNL_ARG_WEIGHTS, made.weights_desc())
    .bind(DNNL_ARG_BIAS, d.bias)
    .bind(DNNL_ARG_DST, d.output);
  return with_reorders(std::move(main), d, made.weights_desc());
}

prepared_convolution prepare_backward_data(const convolution& c) {
  const convolution_layouts d{c};
  const dnnl::convolution_backward_data::primitive_desc made{
    {dnnl::algorithm::convolution_direct, d.input, d.weights, d.output,
     d.strides, d.before, d.after},
    our_attributes(),
    cpu_engine(),
    d.forward()};
  prepared_primitive main{dnnl::convolution_backward_data{made},
                          made.scratchpad_desc()};
  main.bind(DNNL_ARG_DIFF_DST, d.output)
    .bind(DNNL_ARG_WEIGHTS, made.weights_desc())
    .bind(DNNL_ARG_DIFF_SRC, d.input);
  return with_reorders(std::move(main), d, made.weights_desc());
}

prepared_convolution prepare_backward_weights(const convolution& c) {
  const convolution_layouts d{c};
  const dnnl::convolution_backward_weights::primitive_desc made{
    {dnnl::algorithm::convolution_direct, d.input, d.weights, d.output,
     d.strides, d.before, d.after},
    our_attributes(),
    cpu_engine(),
    d.forward()};
  prepared_primitive main{dnnl::convolution_backward_weights{made},
                          made.scratchpad_desc()};
  main.bind(DNNL_ARG_SRC, d.input)
    .bind(DNNL_ARG_DIFF_DST, d.output)
    .bind(DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc());
  return with_reorders(std::move(main), d, made.diff_weights_desc());
}

float* own_weights(kernel_cache::primitive_cache& all,
                   const prepared_convolution& p) {
  return all.reserve(all.own_weights, p.own_floats);
}

} // namespace

void forward(const convolution& c, const float* x, const float* weights,
             const float* bias, float* y) {
  if (c.n == 0)
    return;
  auto& all = cache();
  auto& p = find_or_prepare(all.forward, c, prepare_forward);
  const auto* own = own_weights(all, p);
  all.run(p.to_own, {weights, own});
  all.run(p.main, {x, own, bias, y});
}

void backward_data(const convolution& c, const float* gy, const float* weights,
                   float* gx) {
  if (c.n == 0)
    return;
  auto& all = cache();
  auto& p = find_or_prepare(all.backward_data, c, prepare_backward_data);
  const auto* own = own_weights(all, p);
  all.run(p.to_own, {weights, own});
  all.run(p.main, {gy, own, gx});
}

void backward_weights(const convolution& c, const float* x, const float* gy,
                      float* gw) {
  if (c.n == 0) {
    std::fill_n(gw, c.kh * c.kw * c.ci * c.co, 0.0f);
    return;
  }
  auto& all = cache();
  auto& p = find_or_prepare(all.backward_weights, c, prepare_backward_weights);
  const auto* own = own_weights(all, p);
  all.run(p.main, {x, gy, own});
  all.run(p.from_own, {own, gw});
}

} // namespace troupe::onednn
