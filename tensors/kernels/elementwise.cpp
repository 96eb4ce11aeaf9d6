#include "troupe/tensors/kernels/math.hpp"

namespace troupe::TROUPE_LEVEL {

static void add(float* out, const float* a, const float* b, std::size_t n) {
  in_vectors(n, [=](std::size_t i, auto k) {
    store(out + i, load(a + i, k) + load(b + i, k), k);
  });
}

static void add_into(float* sum, const float* x, std::size_t n) {
  add(sum, sum, x, n);
}

static void scale(float* x, float factor, std::size_t n) {
  in_vectors(n, [=](std::size_t i, auto k) {
    store(x + i, load(x + i, k) * factor, k);
  });
}

static void axpy(float* y, float factor, const float* x, std::size_t n) {
  in_vectors(n, [=](std::size_t i, auto k) {
    store(y + i, load(y + i, k) + factor * load(x + i, k), k);
  });
}

static void bias_add(float* x, const float* bias, std::size_t m,
                     std::size_t n) {
  for (std::size_t row = 0; row < m; ++row)
    add(x + row * n, x + row * n, bias, n);
}

static void bias_add_relu(float* x, const float* bias, std::size_t m,
                          std::size_t n) {
  for (std::size_t row = 0; row < m; ++row, x += n)
    in_vectors(n, [=](std::size_t i, auto k) {
      store(x + i, relu_of(load(x + i, k) + load(bias + i, k)), k);
    });
}

static void relu(float* out, const float* x, std::size_t n) {
  in_vectors(n, [=](std::size_t i, auto k) {
    store(out + i, relu_of(load(x + i, k)), k);
  });
}

static void relu_mask(float* g, const float* y, std::size_t n) {
  in_vectors(n, [=](std::size_t i, auto k) {
    store(g + i, load(y + i, k) > 0 ? load(g + i, k) : vec{}, k);
  });
}

static void from_bytes(float* __restrict out, const std::uint8_t* __restrict in,
                       float factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(in[i]) * factor;
}

static void scale_rows(float* out, const float* x, const float* factors,
                       std::size_t m, std::size_t n, bool accumulate) {
  for (std::size_t row = 0; row < m; ++row, out += n, x += n) {
    const float factor = factors[row];
    if (accumulate)
      in_vectors(n, [=](std::size_t i, auto k) {
        store(out + i, load(out + i, k) + load(x + i, k) * factor, k);
      });
    else
      in_vectors(n, [=](std::size_t i, auto k) {
        store(out + i, load(x + i, k) * factor, k);
      });
  }
}

static bool any_exceeds(const float* x, std::size_t n, float limit) {
  // The bits of magnitudes have the order of the magnitudes, and NaN is the
  // greatest. The loop ends after the first block that exceeds the limit.
  constexpr std::size_t block = 1024;
  const auto most = (ints)splat(limit);
  for (std::size_t begin = 0; begin < n; begin += block) {
    ints found{};
    in_vectors(n - begin < block ? n - begin : block,
               [&](std::size_t i, auto k) {
                 const auto bits = (ints)load(x + begin + i, k);
                 found |= (bits & 0x7FFFFFFF) > most;
               });
    for (std::size_t i = 0; i < width; ++i)
      if (found[i])
        return true;
  }
  return false;
}

static void exp(float* out, const float* x, std::size_t n) {
  in_vectors(n, [=](std::size_t i, auto k) {
    store(out + i, exp_of(load(x + i, k)), k);
  });
}

static void sigmoid_cross_entropy(float* losses, float* gradient,
                                  const float* x, const float* targets,
                                  std::size_t n) {
  in_vectors(n, [=](std::size_t i, auto k) {
    const auto score = load(x + i, k), target = load(targets + i, k);
    const auto e = exp_of(score < 0 ? score : -score);
    const auto probability = (score < 0 ? e : splat(1)) / (1.0f + e);
    store(losses + i, relu_of(score) - score * target + log_of_1_plus(e), k);
    store(gradient + i, probability - target, k);
  });
}

// Arithmetic with subnormal numbers would flush them, so these kernels compute
// with bits.

static void to_bfloat16(std::uint16_t* __restrict out, const float* x,
                        std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto all = __builtin_bit_cast(std::uint32_t, x[i]);
    const auto nan = all >> 16 | 0x40;
    const auto rounded = (all + 0x7fff + (all >> 16 & 1)) >> 16;
    out[i] = static_cast<std::uint16_t>(
      (all & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
}

static void from_bfloat16(float* __restrict out, const std::uint16_t* x,
                          std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = __builtin_bit_cast(float, std::uint32_t{x[i]} << 16);
}

static void relu_bfloat16(std::uint16_t* x, std::size_t n) {
  // The negative numbers, from -0 to -infinity, are a range of bits.
  for (std::size_t i = 0; i < n; ++i)
    x[i] = x[i] >= 0x8000 && x[i] <= 0xff80 ? std::uint16_t{0} : x[i];
}

static void relu_mask_bfloat16(std::uint16_t* __restrict g,
                               const std::uint16_t* __restrict y,
                               std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    g[i] = y[i] > 0 && y[i] <= 0x7f80 ? g[i] : std::uint16_t{0};
}

extern const elementwise_kernels elementwise;
const elementwise_kernels elementwise = {add,
                                         add_into,
                                         scale,
                                         axpy,
                                         bias_add,
                                         bias_add_relu,
                                         relu,
                                         relu_mask,
                                         from_bytes,
                                         scale_rows,
                                         any_exceeds,
                                         exp,
                                         sigmoid_cross_entropy,
                                         to_bfloat16,
                                         from_bfloat16,
                                         relu_bfloat16,
                                         relu_mask_bfloat16};

} // namespace troupe::TROUPE_LEVEL
