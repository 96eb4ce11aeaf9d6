#include "troupe/tensors/kernels/math.hpp"

namespace troupe::TROUPE_LEVEL {

namespace {

/// Maximum of the row. NaN is ignored; but if the first element is NaN, so is
/// the result.
float row_max(const float* x, std::size_t n) {
  lanes maxima;
  for (auto& lane : maxima.vectors)
    lane = splat(x[0]);
  in_lanes(n, [&](std::size_t lane, std::size_t i, auto k) {
    const auto v = padded(load(x + i, k), x[0], k);
    maxima.vectors[lane] = v > maxima.vectors[lane] ? v : maxima.vectors[lane];
  });
  return maxima.fold([](vec a, vec b) { return b > a ? b : a; });
}

float sum_of(const float* x, std::size_t n) {
  lanes sums;
  in_lanes(n, [&](std::size_t lane, std::size_t i, auto k) {
    sums.vectors[lane] += load(x + i, k);
  });
  return sums.fold([](vec a, vec b) { return a + b; });
}

} // namespace

void softmax(float* out, const float* x, std::size_t m, std::size_t n) {
  for (std::size_t row = 0; row < m; ++row, x += n, out += n) {
    const auto maximum = n > 0 ? row_max(x, n) : 0.0f;
    in_vectors(n, [=](std::size_t i, auto k) {
      store(out + i, exp_of(load(x + i, k) - maximum), k);
    });
    const auto sum = sum_of(out, n);
    in_vectors(n, [=](std::size_t i, auto k) {
      store(out + i, load(out + i, k) / sum, k);
    });
  }
}

/// Computes the gradient of one row and the two terms of its loss, which is
/// log(sum) - right. `sum` is the sum of e^(logit - maximum) over the row, and
/// `right` is the label's logit minus the maximum.
static void entropy_row(const float* logits, std::size_t label, std::size_t n,
                        float* gradient, float& sum, float& right) {
  const auto maximum = row_max(logits, n);
  right = logits[label] - maximum;
  in_vectors(n, [=](std::size_t i, auto k) {
    store(gradient + i, exp_of(load(logits + i, k) - maximum), k);
  });
  sum = sum_of(gradient, n);
  const auto divisor = sum;
  in_vectors(n, [=](std::size_t i, auto k) {
    store(gradient + i, load(gradient + i, k) / divisor, k);
  });
  gradient[label] -= 1;
}

std::size_t softmax_cross_entropy(const float* logits,
                                  const std::int32_t* labels, std::size_t m,
                                  std::size_t n, float* losses,
                                  float* gradient) {
  // Number of rows whose logarithms are computed together.
  constexpr std::size_t block = 64;
  std::size_t good = 0;
  while (good < m && labels[good] >= 0
         && static_cast<std::size_t>(labels[good]) < n)
    ++good;
  for (std::size_t top = 0; top < good; top += block) {
    const auto rows = good - top < block ? good - top : block;
    float sums[block], rights[block];
    for (std::size_t i = 0; i < rows; ++i)
      entropy_row(logits + (top + i) * n,
                  static_cast<std::size_t>(labels[top + i]), n,
                  gradient + (top + i) * n, sums[i], rights[i]);
    // A sum is NaN or at least 1, because it contains e^0.
    for (std::size_t i = 0; i < rows; ++i)
      losses[top + i] =
        sums[i] == sums[i] ? log_of(sums[i]) - rights[i] : sums[i];
  }
  return good;
}

} // namespace troupe::TROUPE_LEVEL
