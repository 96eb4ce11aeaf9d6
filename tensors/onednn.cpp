#include "troupe/tensors/onednn.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/kernel_cache.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/tensor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace troupe {

namespace {

using layout = dnnl::memory::desc;
using tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

const dnnl::engine& cpu() {
  static const dnnl::engine it{dnnl::engine::kind::cpu, 0};
  return it;
}

/// FNV-1a over a key's numbers.
template <class T>
struct hash_of {
  std::size_t operator()(const T& x) const {
    std::size_t h = 14695981039346656037u;
    const auto add = [&](auto... vs) {
      ((h = (h ^ std::size_t(vs)) * 1099511628211u), ...);
    };
    if constexpr (requires { x.a_transposed; })
      add(x.m, x.n, x.k, x.a_transposed, x.b_transposed, x.bias, x.relu, x.add);
    else
      add(x.n, x.h, x.w, x.ci, x.co, x.kh, x.kw, x.oh, x.ow, x.stride_h,
          x.stride_w, x.top, x.left, x.relu);
    return h;
  }
};

/// A primitive with the memories that it is run on; their handles are set for
/// each run, so a run prepares nothing.
class runnable {
public:
  runnable() = default;
  runnable(dnnl::primitive what, const layout& scratch)
    : what_{std::move(what)}, scratch_bytes_{scratch.get_size()} {
    bind(DNNL_ARG_SCRATCHPAD, scratch);
  }

  runnable& bind(int argument, const layout& as) {
    memories_[count_] = dnnl::memory{as, cpu(), nullptr};
    arguments_[count_] = {argument, memories_[count_].get()};
    ++count_;
    return *this;
  }

  /// Handles in the order of `bind`; the scratch pad is the caller's.
  void run(const dnnl::stream& on, void* scratch,
           std::initializer_list<const float*> handles) {
    set(0, scratch);
    int i = 0;
    for (const auto* handle : handles)
      set(++i, const_cast<float*>(handle));
    const auto status =
      dnnl_primitive_execute(what_.get(), on.get(), count_, arguments_.data());
    dnnl::error::wrap_c_api(status, "oneDNN could not run a primitive");
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

private:
  void set(int i, void* handle) {
    dnnl_memory_set_data_handle(memories_[std::size_t(i)].get(), handle);
  }

  dnnl::primitive what_;
  std::size_t scratch_bytes_ = 0;
  int count_ = 0;
  std::array<dnnl::memory, 6> memories_;
  std::array<dnnl_exec_arg_t, 6> arguments_{};
};

dnnl::primitive_attr our_attributes() {
  dnnl::primitive_attr out;
  out.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return out;
}

} // namespace

/// A convolution with the reorders between the flat weights and its own.
struct prepared_convolution {
  runnable main, to_own, from_own;
  std::size_t own_floats = 0;
};

struct kernel_cache::prepared {
  dnnl::stream stream{cpu()};
  tensor scratch, own_weights;
  std::unordered_map<onednn::product, runnable, hash_of<onednn::product>>
    products;
  using convolutions =
    std::unordered_map<onednn::convolution, prepared_convolution,
                       hash_of<onednn::convolution>>;
  convolutions forward, backward_data, backward_weights;

  void* scratch_of(const runnable& x) {
    return room(scratch, x.scratch_bytes() / sizeof(float) + 16);
  }

  static float* room(tensor& in, std::size_t floats) {
    if (!in || in.size() < floats)
      in = tensor{shape{std::int64_t(floats)}};
    return in.mutable_data<float>().data();
  }

  void run(runnable& x, std::initializer_list<const float*> handles) {
    x.run(stream, scratch_of(x), handles);
  }
};

kernel_cache::kernel_cache() : it{std::make_unique<prepared>()} {}
kernel_cache::~kernel_cache() = default;

namespace onednn {

namespace {

kernel_cache::prepared& cache() {
  auto& here = current_context();
  if (!here.kernels)
    here.kernels = std::make_unique<kernel_cache>();
  return *here.kernels->it;
}

// -- matrix product -----------------------------------------------------------

runnable prepare(const product& p) {
  const layout a{{p.m, p.k}, f32, p.a_transposed ? tag::ba : tag::ab};
  const layout b{{p.k, p.n}, f32, p.b_transposed ? tag::ba : tag::ab};
  const layout c{{p.m, p.n}, f32, tag::ab};
  const layout bias{{1, p.n}, f32, tag::ab};
  auto attributes = our_attributes();
  dnnl::post_ops after;
  if (p.add)
    after.append_sum(1.0f);
  if (p.relu)
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(after);
  const auto description =
    p.bias ? dnnl::matmul::desc{a, b, bias, c} : dnnl::matmul::desc{a, b, c};
  const dnnl::matmul::primitive_desc made{description, attributes, cpu()};
  runnable out{dnnl::matmul{made}, made.scratchpad_desc()};
  out.bind(DNNL_ARG_SRC, a).bind(DNNL_ARG_WEIGHTS, b).bind(DNNL_ARG_DST, c);
  return p.bias ? out.bind(DNNL_ARG_BIAS, bias) : out;
}

/// For one row oneDNN's matrix-vector product, which copies no operand.
void run_row(const product& p, const float* a, const float* b,
             const float* bias, float* c) {
  dnnl_sgemm('N', p.b_transposed ? 'T' : 'N', 1, p.n, p.k, 1, a, p.k, b,
             p.b_transposed ? p.k : p.n, p.add ? 1 : 0, c, p.n);
  if (p.bias)
    (p.relu ? kernels().bias_add_relu : kernels().bias_add)(c, bias, 1,
                                                            std::size_t(p.n));
}

/// Of no products: zeros, with bias and activation.
void run_empty(const product& p, const float* bias, float* c) {
  if (!p.add)
    std::fill_n(c, p.m * p.n, 0.0f);
  if (p.bias)
    (p.relu ? kernels().bias_add_relu
            : kernels().bias_add)(c, bias, std::size_t(p.m), std::size_t(p.n));
}

} // namespace

void run(const product& p, const float* a, const float* b, const float* bias,
         float* c) {
  if (p.m == 0 || p.n == 0)
    return;
  if (p.k == 0)
    return run_empty(p, bias, c);
  if (p.m == 1 && !p.a_transposed && (p.bias || !p.relu))
    return run_row(p, a, b, bias, c);
  auto& all = cache();
  auto at = all.products.find(p);
  if (at == all.products.end())
    at = all.products.emplace(p, prepare(p)).first;
  if (p.bias)
    all.run(at->second, {a, b, c, bias});
  else
    all.run(at->second, {a, b, c});
}

// -- convolution --------------------------------------------------------------

namespace {

/// How oneDNN sees a convolution of ours: sizes as [n, c, h, w] whatever the
/// layout is, weights in whatever layout it likes best.
struct described {
  explicit described(const convolution& c)
    : x{{c.n, c.ci, c.h, c.w}, f32, tag::nhwc},
      y{{c.n, c.co, c.oh, c.ow}, f32, tag::nhwc},
      own{{c.co, c.ci, c.kh, c.kw}, f32, tag::any},
      flat{{c.co, c.ci, c.kh, c.kw}, f32, tag::hwio},
      bias{{c.co}, f32, tag::a},
      strides{c.stride_h, c.stride_w},
      before{c.top, c.left},
      after{c.bottom, c.right} {}

  dnnl::convolution_forward::primitive_desc forward(bool relu) const {
    auto attributes = our_attributes();
    if (relu) {
      dnnl::post_ops last;
      last.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
      attributes.set_post_ops(last);
    }
    return {{dnnl::prop_kind::forward_training,
             dnnl::algorithm::convolution_direct, x, own, bias, y, strides,
             before, after},
            attributes,
            cpu()};
  }

  layout x, y, own, flat, bias;
  dnnl::memory::dims strides, before, after;
};

runnable prepare_reorder(const layout& from, const layout& to) {
  const dnnl::reorder::primitive_desc made{cpu(), from, cpu(), to,
                                           our_attributes()};
  runnable out{dnnl::reorder{made}, made.scratchpad_desc()};
  return out.bind(DNNL_ARG_FROM, from).bind(DNNL_ARG_TO, to);
}

/// @param own the layout that the primitive chose for its weights.
prepared_convolution with_reorders(runnable main, const described& d,
                                   const layout& own) {
  return {std::move(main), prepare_reorder(d.flat, own),
          prepare_reorder(own, d.flat), own.get_size() / sizeof(float)};
}

prepared_convolution prepare_forward(const convolution& c) {
  const described d{c};
  const auto made = d.forward(c.relu);
  runnable main{dnnl::convolution_forward{made}, made.scratchpad_desc()};
  main.bind(DNNL_ARG_SRC, d.x)
    .bind(DNNL_ARG_WEIGHTS, made.weights_desc())
    .bind(DNNL_ARG_BIAS, d.bias)
    .bind(DNNL_ARG_DST, d.y);
  return with_reorders(std::move(main), d, made.weights_desc());
}

prepared_convolution prepare_backward_data(const convolution& c) {
  const described d{c};
  const dnnl::convolution_backward_data::primitive_desc made{
    {dnnl::algorithm::convolution_direct, d.x, d.own, d.y, d.strides, d.before,
     d.after},
    our_attributes(),
    cpu(),
    d.forward(false)};
  runnable main{dnnl::convolution_backward_data{made}, made.scratchpad_desc()};
  main.bind(DNNL_ARG_DIFF_DST, d.y)
    .bind(DNNL_ARG_WEIGHTS, made.weights_desc())
    .bind(DNNL_ARG_DIFF_SRC, d.x);
  return with_reorders(std::move(main), d, made.weights_desc());
}

prepared_convolution prepare_backward_weights(const convolution& c) {
  const described d{c};
  const dnnl::convolution_backward_weights::primitive_desc made{
    {dnnl::algorithm::convolution_direct, d.x, d.own, d.bias, d.y, d.strides,
     d.before, d.after},
    our_attributes(),
    cpu(),
    d.forward(false)};
  runnable main{dnnl::convolution_backward_weights{made},
                made.scratchpad_desc()};
  main.bind(DNNL_ARG_SRC, d.x)
    .bind(DNNL_ARG_DIFF_DST, d.y)
    .bind(DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc())
    .bind(DNNL_ARG_DIFF_BIAS, d.bias);
  return with_reorders(std::move(main), d, made.diff_weights_desc());
}

template <class F>
prepared_convolution& find(kernel_cache::prepared::convolutions& among,
                           const convolution& c, F prepare) {
  auto at = among.find(c);
  if (at == among.end())
    at = among.emplace(c, prepare(c)).first;
  return at->second;
}

float* own_weights(kernel_cache::prepared& all, const prepared_convolution& p) {
  return all.room(all.own_weights, p.own_floats);
}

} // namespace

void forward(const convolution& c, const float* x, const float* weights,
             const float* bias, float* y) {
  if (c.n == 0 || c.co == 0)
    return;
  auto& all = cache();
  auto& p = find(all.forward, c, prepare_forward);
  const auto* own = own_weights(all, p);
  all.run(p.to_own, {weights, own});
  all.run(p.main, {x, own, bias, y});
}

void backward_data(const convolution& c, const float* gy, const float* weights,
                   float* gx) {
  if (c.n == 0 || c.ci == 0)
    return;
  auto& all = cache();
  auto& p = find(all.backward_data, c, prepare_backward_data);
  const auto* own = own_weights(all, p);
  all.run(p.to_own, {weights, own});
  all.run(p.main, {gy, own, gx});
}

void backward_weights(const convolution& c, const float* x, const float* gy,
                      float* gw, float* gb) {
  if (c.n == 0 || c.ci == 0 || c.co == 0) {
    std::fill_n(gw, c.kh * c.kw * c.ci * c.co, 0.0f);
    std::fill_n(gb, c.co, 0.0f);
    return;
  }
  auto& all = cache();
  auto& p = find(all.backward_weights, c, prepare_backward_weights);
  const auto* own = own_weights(all, p);
  all.run(p.main, {x, gy, own, gb});
  all.run(p.from_own, {own, gw});
}

void set_threads(int count) {
  omp_set_num_threads(count);
}

} // namespace onednn

} // namespace troupe
