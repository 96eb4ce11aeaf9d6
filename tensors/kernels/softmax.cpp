#include "troupe/tensors/kernels/math.hpp"

namespace troupe::TROUPE_LEVEL {

namespace {

float larger(float a, float b) {
  return b > a ? b : a;
}

float plus(float a, float b) {
  return a + b;
}

/// The largest of the row, NaN left out.
float largest(const float* x, std::size_t n) {
  lanes most;
  for (auto& lane : most.of)
    lane = all(x[0]);
  in_lanes(n, [&](std::size_t lane, std::size_t i, auto k) {
    auto v = load(x + i, k);
    if constexpr (sizeof k != sizeof(whole))
      for (std::size_t j = k.n; j < width; ++j)
        v[j] = x[0];
    most.of[lane] = v > most.of[lane] ? v : most.of[lane];
  });
  return most.fold(larger);
}

float sum_of(const float* x, std::size_t n) {
  lanes sums;
  in_lanes(n, [&](std::size_t lane, std::size_t i, auto k) {
    sums.of[lane] += load(x + i, k);
  });
  return sums.fold(plus);
}

} // namespace

void softmax(float* out, const float* x, std::size_t m, std::size_t n) {
  for (std::size_t row = 0; row < m; ++row, x += n, out += n) {
    const auto most = n > 0 ? largest(x, n) : 0.0f;
    in_vectors(n, [=](std::size_t i, auto k) {
      store(out + i, exp_of(load(x + i, k) - most), k);
    });
    const auto sum = sum_of(out, n);
    in_vectors(n, [=](std::size_t i, auto k) {
      store(out + i, load(out + i, k) / sum, k);
    });
  }
}

std::size_t softmax_cross_entropy(const float* logits,
                                  const std::int32_t* labels, std::size_t m,
                                  std::size_t n, float* losses,
                                  float* gradient) {
  for (std::size_t row = 0; row < m; ++row, logits += n, gradient += n) {
    if (labels[row] < 0 || static_cast<std::size_t>(labels[row]) >= n)
      return row;
    const auto label = static_cast<std::size_t>(labels[row]);
    const auto most = largest(logits, n);
    const auto right = logits[label] - most;
    in_vectors(n, [=](std::size_t i, auto k) {
      store(gradient + i, exp_of(load(logits + i, k) - most), k);
    });
    const auto sum = sum_of(gradient, n);
    in_vectors(n, [=](std::size_t i, auto k) {
      store(gradient + i, load(gradient + i, k) / sum, k);
    });
    gradient[label] -= 1;
    // A sum is finite unless it is NaN; it is at least 1 then.
    losses[row] = sum == sum ? log_of(sum) - right : sum;
  }
  return m;
}

} // namespace troupe::TROUPE_LEVEL
