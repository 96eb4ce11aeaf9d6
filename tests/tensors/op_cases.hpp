#pragma once

#include "troupe/tensors/op.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace troupe {

/// An op and the index of one of its cases. Each test of ops_test.cpp runs for
/// every case of every op.
struct tried_op {
  const op* definition = nullptr;
  std::size_t index = 0;

  const op_case& tested_case() const { return definition->cases[index]; }
  std::uint32_t seed() const {
    return 1'000 + static_cast<std::uint32_t>(index);
  }
};

inline std::vector<tried_op> op_grid() {
  std::vector<tried_op> out;
  for (const auto* x : all_ops())
    for (std::size_t i = 0; i < x->cases.size(); ++i)
      out.push_back({x, i});
  return out;
}

inline std::string name_of(const testing::TestParamInfo<tried_op>& x) {
  return std::string{x.param.definition->name} + "_"
         + std::to_string(x.param.index);
}

inline void PrintTo(const tried_op& x, std::ostream* out) {
  *out << x.definition->name << " on";
  for (std::size_t i = 0; i < x.definition->arity; ++i)
    *out << ' ' << to_string(x.tested_case().in[i]);
  *out << ", seed " << x.seed();
}

/// Returns a uniformly distributed multiple of 2^-24 in [0, 1). It is the same
/// with every standard library.
inline float unit(std::mt19937& rng) {
  return static_cast<float>(rng() >> 8) * 0x1p-24f;
}

/// Draws inputs for a case. float32 represents the values exactly, and none is
/// near a nondifferentiable point of the op.
inline std::vector<tensor> draw(const tried_op& x, dtype type) {
  std::mt19937 rng{x.seed()};
  std::vector<tensor> out;
  const auto& c = x.tested_case();
  for (std::size_t i = 0; i < x.definition->arity; ++i) {
    if (x.definition->integers >> i & 1) {
      tensor t{c.in[i], dtype::int32};
      for (auto& v : t.mutable_data<std::int32_t>())
        v = static_cast<std::int32_t>(rng() % unsigned(c.high));
      out.push_back(t);
      continue;
    }
    tensor t{c.in[i], dtype::float32};
    for (auto& v : t.mutable_data<float>()) {
      const auto near_kink = [&] {
        for (const float kink : x.definition->nondifferentiable_points)
          if (std::abs(v - kink) < 1e-3f)
            return true;
        return false;
      };
      do
        v = c.low + unit(rng) * (c.high - c.low);
      while (near_kink());
    }
    out.push_back(t.as(type));
  }
  return out;
}

inline tensor draw_like(const tensor_spec& spec, std::uint32_t seed) {
  std::mt19937 rng{seed};
  tensor t{spec.dims, dtype::float32};
  for (auto& v : t.mutable_data<float>())
    v = 2 * unit(rng) - 1;
  return t.as(spec.type);
}

/// Runs the kernels of an op directly, without a tape.
struct run_of_op {
  run_of_op(const tried_op& x, std::vector<tensor> inputs)
    : in{std::move(inputs)}, wide{false} {
    std::vector<tensor_spec> specs;
    for (std::size_t i = 0; i < in.size(); ++i) {
      specs.push_back(in[i].spec());
      wide |= in[i].type() == dtype::float64;
    }
    definition = x.definition;
    call.options = x.tested_case().options;
    call.in = in;
    const auto spec = definition->infer(specs, call.options);
    call.out = definition->is_reshape ? in[0].reshaped(spec.dims)
               : definition->view     ? definition->view(in[0], call.options)
                                      : tensor{spec};
    EXPECT_EQ(call.out.spec(), spec);
    if (!definition->is_reshape && !definition->view)
      (wide ? definition->reference_forward : definition->forward[0])(call);
  }

  /// Returns the gradients of the inputs, given the gradient of the output. Bit
  /// i of `wanted` requests the gradient of input i. If `add` is true, each
  /// gradient is added to a tensor of ones.
  std::vector<tensor> backward(const tensor& grad_out, unsigned wanted = ~0u,
                               bool add = false) {
    std::vector<tensor> grads(in.size());
    for (std::size_t i = 0; i < in.size(); ++i)
      if ((wanted >> i & 1) && !(definition->integers >> i & 1))
        grads[i] = tensor::full(in[i].dims(), add ? 1 : NAN, in[i].type());
    auto c = call;
    c.grad_out = grad_out.clone();
    c.grad_in = grads;
    c.accumulate = add ? ~0u : 0;
    (wide ? definition->reference_backward : definition->backward[0])(c);
    return grads;
  }

  const op* definition;
  std::vector<tensor> in;
  bool wide;
  op_call call;
};

} // namespace troupe
