#include "troupe/tensors/kernels/isa_level.hpp"

namespace troupe::TROUPE_LEVEL {

static inline vec sqrt_of(vec x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xFFFF, x); // GCC 12 warns about _mm512_sqrt_ps.
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#else
  for (std::size_t i = 0; i < width; ++i)
    x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

static void sgd(float* x, const float* g, std::size_t n, float rate,
                float scale) {
  in_vectors(n, [=](std::size_t i, auto k) {
    store(x + i, load(x + i, k) - rate * (load(g + i, k) * scale), k);
  });
}

static void momentum(float* x, const float* g, float* v, std::size_t n,
                     float rate, float momentum, float scale) {
  in_vectors(n, [=](std::size_t i, auto k) {
    const auto velocity = momentum * load(v + i, k) + load(g + i, k) * scale;
    store(v + i, velocity, k);
    store(x + i, load(x + i, k) - rate * velocity, k);
  });
}

static void nesterov(float* x, const float* g, float* v, std::size_t n,
                     float rate, float momentum, float scale) {
  in_vectors(n, [=](std::size_t i, auto k) {
    const auto slope = load(g + i, k) * scale;
    const auto velocity = momentum * load(v + i, k) + slope;
    store(v + i, velocity, k);
    store(x + i, load(x + i, k) - rate * (slope + momentum * velocity), k);
  });
}

static void adam(float* x, const float* g, float* m, float* v, std::size_t n,
                 const adam_coefficients& coefficients, float scale) {
  const auto c = coefficients; // A local copy, which no store can alias.
  in_vectors(n, [=](std::size_t i, auto k) {
    const auto slope = load(g + i, k) * scale;
    const auto mean = c.beta1 * load(m + i, k) + c.one_minus_beta1 * slope;
    const auto square =
      c.beta2 * load(v + i, k) + c.one_minus_beta2 * (slope * slope);
    store(m + i, mean, k);
    store(v + i, square, k);
    const auto step =
      c.step_size * mean
      / (c.inv_sqrt_bias_correction * sqrt_of(square) + c.epsilon);
    store(x + i, c.decay_factor * load(x + i, k) - step, k);
  });
}

static void adagrad(float* x, const float* g, float* sum, std::size_t n,
                    float rate, float epsilon, float scale) {
  in_vectors(n, [=](std::size_t i, auto k) {
    const auto slope = load(g + i, k) * scale;
    const auto squares = load(sum + i, k) + slope * slope;
    store(sum + i, squares, k);
    store(x + i, load(x + i, k) - rate * slope / sqrt_of(squares + epsilon), k);
  });
}

static void ftrl(float* x, const float* g, float* sum, float* z, std::size_t n,
                 const ftrl_coefficients& coefficients, float scale) {
  const auto c = coefficients; // A local copy, which no store can alias.
  in_vectors(n, [=](std::size_t i, auto k) {
    const auto slope = load(g + i, k) * scale;
    const auto before = load(sum + i, k), value = load(x + i, k);
    const auto squares = before + slope * slope;
    const auto root = sqrt_of(squares);
    const auto linear =
      load(z + i, k)
      + ((slope + c.twice_l2_shrinkage * value)
         - (root - sqrt_of(before)) / c.learning_rate * value);
    store(sum + i, squares, k);
    store(z + i, linear, k);
    auto clipped = linear > c.l1 ? splat(c.l1) : linear;
    clipped = clipped < -c.l1 ? splat(-c.l1) : clipped;
    store(x + i,
          (clipped - linear)
            / (root / c.learning_rate + c.added_to_denominator),
          k);
  });
}

extern const update_kernels updates;
const update_kernels updates = {sgd, momentum, nesterov, adam, adagrad, ftrl};

} // namespace troupe::TROUPE_LEVEL
