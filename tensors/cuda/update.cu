#include "troupe/tensors/cuda/update.hpp"

#include "troupe/tensors/cuda/launch.cuh"

#include <cmath>

namespace troupe::cuda {

// The formulas are those of tensors/kernels/updates.cpp, operation by
// operation.

cudaError_t update(const rule_coefficients& step, float* x, const float* g,
                   const std::array<float*, 2>& slots, std::size_t n,
                   cudaStream_t stream) {
  const auto rate = step.learning_rate, scale = step.scale,
             momentum = step.momentum;
  using formula = rule_coefficients::formula;
  switch (step.kind) {
    case formula::none:
      return cudaSuccess;
    case formula::sgd:
      return for_each(stream, n, [=] __device__(std::size_t i) {
        x[i] = x[i] - rate * (g[i] * scale);
      });
    case formula::momentum: {
      auto* const v = slots[0];
      return for_each(stream, n, [=] __device__(std::size_t i) {
        const float velocity = momentum * v[i] + g[i] * scale;
        v[i] = velocity;
        x[i] = x[i] - rate * velocity;
      });
    }
    case formula::nesterov: {
      auto* const v = slots[0];
      return for_each(stream, n, [=] __device__(std::size_t i) {
        const float slope = g[i] * scale;
        const float velocity = momentum * v[i] + slope;
        v[i] = velocity;
        x[i] = x[i] - rate * (slope + momentum * velocity);
      });
    }
    case formula::adam: {
      auto *const m = slots[0], *const v = slots[1];
      const auto c = step.adam;
      return for_each(stream, n, [=] __device__(std::size_t i) {
        const float slope = g[i] * scale;
        const float mean = c.beta1 * m[i] + c.one_minus_beta1 * slope;
        const float square =
          c.beta2 * v[i] + c.one_minus_beta2 * (slope * slope);
        m[i] = mean;
        v[i] = square;
        const float change =
          c.step_size * mean
          / (c.inv_sqrt_bias_correction * std::sqrt(square) + c.epsilon);
        x[i] = c.decay_factor * x[i] - change;
      });
    }
    case formula::adagrad: {
      auto* const sum = slots[0];
      const auto epsilon = step.epsilon;
      return for_each(stream, n, [=] __device__(std::size_t i) {
        const float slope = g[i] * scale;
        const float squares = sum[i] + slope * slope;
        sum[i] = squares;
        x[i] = x[i] - rate * slope / std::sqrt(squares + epsilon);
      });
    }
    case formula::ftrl: {
      auto *const sum = slots[0], *const z = slots[1];
      const auto c = step.ftrl;
      return for_each(stream, n, [=] __device__(std::size_t i) {
        const float slope = g[i] * scale;
        const float before = sum[i], value = x[i];
        const float squares = before + slope * slope;
        const float root = std::sqrt(squares);
        const float linear =
          z[i]
          + ((slope + c.twice_l2_shrinkage * value)
             - (root - std::sqrt(before)) / c.learning_rate * value);
        sum[i] = squares;
        z[i] = linear;
        float clipped = linear > c.l1 ? c.l1 : linear;
        clipped = clipped < -c.l1 ? -c.l1 : clipped;
        x[i] = (clipped - linear)
               / (root / c.learning_rate + c.added_to_denominator);
      });
    }
  }
  return cudaErrorInvalidValue;
}

cudaError_t find_exceeding(const float* x, std::size_t n, float limit,
                           int* found, cudaStream_t stream) {
  return for_each(stream, n, [=] __device__(std::size_t i) {
    if (!(std::abs(x[i]) <= limit))
      *found = 1;
  });
}

} // namespace troupe::cuda
