#pragma once

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/onednn/kernel_cache.hpp"
#include "troupe/tensors/tensor.hpp"

#include <array>
#include <cstddef>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

// oneDNN objects that are prepared once and kept. Only the sources of this
// folder include this file.

namespace troupe {

namespace onednn {

using layout = dnnl::memory::desc;
using tag = dnnl::memory::format_tag;

inline dnnl::memory::data_type data_type_of(dtype x) {
  return x == dtype::bfloat16 ? dnnl::memory::data_type::bf16
                              : dnnl::memory::data_type::f32;
}

dnnl::engine& cpu_engine();

/// The dtypes of a product.
struct operand_types {
  dtype in = dtype::float32, out = dtype::float32;

  template <class In, class Out>
  static constexpr operand_types of() {
    return {dtype_of<In>, dtype_of<Out>};
  }
  bool operator==(const operand_types&) const = default;
};

/// Key of a cached primitive: what it computes, and its dtypes.
template <class What>
struct typed {
  What what;
  operand_types types;

  bool operator==(const typed&) const = default;
};

/// FNV-1a hash of a key's numbers.
template <class T>
struct hash_of {
  std::size_t operator()(const typed<T>& key) const {
    const auto& x = key.what;
    std::size_t h = 14695981039346656037u;
    const auto add = [&](auto... vs) {
      ((h = (h ^ std::size_t(vs)) * 1099511628211u), ...);
    };
    if constexpr (requires { x.a_transposed; })
      add(x.m, x.n, x.k, x.a_transposed, x.b_transposed, x.bias, x.add);
    else
      add(x.n, x.h, x.w, x.ci, x.co, x.kh, x.kw, x.oh, x.ow, x.stride_h,
          x.stride_w, x.top, x.left);
    add(key.types.in, key.types.out);
    return h;
  }
};

/// A primitive with the memory objects of its arguments. A run only sets the
/// data pointers of these objects, so it prepares nothing.
class prepared_primitive {
public:
  prepared_primitive() = default;
  prepared_primitive(dnnl::primitive primitive, const layout& scratch)
    : primitive_{std::move(primitive)}, scratch_bytes_{scratch.get_size()} {
    bind(DNNL_ARG_SCRATCHPAD, scratch);
  }

  prepared_primitive& bind(int argument, const layout& as) {
    memories_[count_] = dnnl::memory{as, cpu_engine(), nullptr};
    arguments_[count_] = {argument, memories_[count_].get()};
    ++count_;
    return *this;
  }

  /// Runs the primitive. `handles` are the data pointers of the arguments, in
  /// the order of the calls of `bind`. The caller owns `scratch`.
  void run(const dnnl::stream& stream, void* scratch,
           std::initializer_list<const void*> handles) {
    set(0, scratch);
    int i = 0;
    for (const auto* handle : handles)
      set(++i, const_cast<void*>(handle));
    const auto status = dnnl_primitive_execute(primitive_.get(), stream.get(),
                                               count_, arguments_.data());
    dnnl::error::wrap_c_api(status, "oneDNN could not run a primitive");
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

private:
  void set(int i, void* handle) {
    dnnl_memory_set_data_handle(memories_[std::size_t(i)].get(), handle);
  }

  dnnl::primitive primitive_;
  std::size_t scratch_bytes_ = 0;
  int count_ = 0;
  std::array<dnnl::memory, 6> memories_;
  std::array<dnnl_exec_arg_t, 6> arguments_{};
};

/// Returns the attributes of our primitives: the caller of `run` provides the
/// memory of the scratchpad, so oneDNN allocates none during a run.
dnnl::primitive_attr our_attributes();

/// A convolution with the reorders of its weights: `to_own` converts a tensor
/// to the layout that the primitive chose, `from_own` converts it back.
struct prepared_convolution {
  prepared_primitive main, to_own, from_own;
  std::size_t own_bytes = 0;
};

} // namespace onednn

struct kernel_cache::primitive_cache {
  dnnl::stream stream{onednn::cpu_engine()};
  tensor scratch, own_weights;
  template <class What, class Prepared>
  using map_of =
    std::unordered_map<onednn::typed<What>, Prepared, onednn::hash_of<What>>;
  map_of<onednn::matmul, onednn::prepared_primitive> matmuls;
  using convolutions = map_of<conv_geometry, onednn::prepared_convolution>;
  convolutions forward, backward_data, backward_weights;

  void* scratch_of(const onednn::prepared_primitive& x) {
    return reserve(scratch, x.scratch_bytes() + 64);
  }

  static void* reserve(tensor& buffer, std::size_t bytes) {
    const auto floats = (bytes + sizeof(float) - 1) / sizeof(float);
    if (!buffer || buffer.size() < floats)
      buffer = tensor{shape{std::int64_t(floats)}};
    return buffer.mutable_data<float>().data();
  }

  void run(onednn::prepared_primitive& x,
           std::initializer_list<const void*> handles) {
    flush_denormals::include_op_threads();
    x.run(stream, scratch_of(x), handles);
  }
};

namespace onednn {

/// Returns the cache of the current context.
kernel_cache::primitive_cache& cache();

/// Finds the primitive for `key`, or adds the result of `prepare(key)`. The map
/// is cleared when it holds 256 entries, so its memory is bounded.
template <class Map, class Key, class F>
auto& find_or_prepare(Map& primitives, const Key& key, F prepare) {
  constexpr std::size_t max_entries = 256;
  auto found = primitives.find(key);
  if (found == primitives.end()) {
    if (primitives.size() == max_entries)
      primitives.clear();
    found = primitives.emplace(key, prepare(key)).first;
  }
  return found->second;
}

} // namespace onednn

} // namespace troupe
