#include "troupe/tensors/cuda/update.hpp"

#include "troupe/tensors/cuda/launch.cuh"

#include <cmath>

namespace troupe::cuda {

/// Calls a function unless a number on the device is not 0.
template <class F>
struct unless {
  const std::int32_t* is_skipped; ///< Null: it is called.
  F call;

  __device__ void operator()(std::size_t i) const {
    if (!is_skipped || *is_skipped == 0)
      call(i);
  }
};

template <class F>
static cudaError_t for_each_unless(const std::int32_t* is_skipped,
                                   cudaStream_t stream, std::size_t n,
                                   const F& f) {
  return for_each(stream, n, unless<F>{is_skipped, f});
}

// The formulas are those of tensors/kernels/updates.cpp, operation by
// operation.

namespace {

/// @param index returns the parameter to which element i of the gradient
///        belongs.
template <class Index>
cudaError_t start(const rule_coefficients& step, float* x, const float* g,
                  const std::array<float*, 2>& slots, std::size_t n,
                  const std::int32_t* is_skipped, cudaStream_t stream,
                  const Index& index) {
  const auto rate = step.learning_rate, scale = step.scale,
             momentum = step.momentum;
  using formula = rule_coefficients::formula;
  switch (step.kind) {
    case formula::none:
      return cudaSuccess;
    case formula::sgd:
      return for_each_unless(is_skipped, stream, n,
                             [=] __device__(std::size_t i) {
                               const auto at = index(i);
                               x[at] = x[at] - rate * (g[i] * scale);
                             });
    case formula::momentum: {
      auto* const v = slots[0];
      return for_each_unless(
        is_skipped, stream, n, [=] __device__(std::size_t i) {
          const auto at = index(i);
          const float velocity = momentum * v[at] + g[i] * scale;
          v[at] = velocity;
          x[at] = x[at] - rate * velocity;
        });
    }
    case formula::nesterov: {
      auto* const v = slots[0];
      return for_each_unless(
        is_skipped, stream, n, [=] __device__(std::size_t i) {
          const auto at = index(i);
          const float slope = g[i] * scale;
          const float velocity = momentum * v[at] + slope;
          v[at] = velocity;
          x[at] = x[at] - rate * (slope + momentum * velocity);
        });
    }
    case formula::adam: {
      auto *const m = slots[0], *const v = slots[1];
      const auto c = step.adam;
      return for_each_unless(
        is_skipped, stream, n, [=] __device__(std::size_t i) {
          const auto at = index(i);
          const float slope = g[i] * scale;
          const float mean = c.beta1 * m[at] + c.one_minus_beta1 * slope;
          const float square =
            c.beta2 * v[at] + c.one_minus_beta2 * (slope * slope);
          m[at] = mean;
          v[at] = square;
          const float change =
            c.step_size * mean
            / (c.inv_sqrt_bias_correction * std::sqrt(square) + c.epsilon);
          x[at] = c.decay_factor * x[at] - change;
        });
    }
    case formula::adagrad: {
      auto* const sum = slots[0];
      const auto epsilon = step.epsilon;
      return for_each_unless(
        is_skipped, stream, n, [=] __device__(std::size_t i) {
          const auto at = index(i);
          const float slope = g[i] * scale;
          const float squares = sum[at] + slope * slope;
          sum[at] = squares;
          x[at] = x[at] - rate * slope / std::sqrt(squares + epsilon);
        });
    }
    case formula::ftrl: {
      auto *const sum = slots[0], *const z = slots[1];
      const auto c = step.ftrl;
      return for_each_unless(
        is_skipped, stream, n, [=] __device__(std::size_t i) {
          const auto at = index(i);
          const float slope = g[i] * scale;
          const float before = sum[at], value = x[at];
          const float squares = before + slope * slope;
          const float root = std::sqrt(squares);
          const float linear =
            z[at]
            + ((slope + c.twice_l2_shrinkage * value)
               - (root - std::sqrt(before)) / c.learning_rate * value);
          sum[at] = squares;
          z[at] = linear;
          float clipped = linear > c.l1 ? c.l1 : linear;
          clipped = clipped < -c.l1 ? -c.l1 : clipped;
          x[at] = (clipped - linear)
                  / (root / c.learning_rate + c.added_to_denominator);
        });
    }
  }
  return cudaErrorInvalidValue;
}

/// Each element of the gradient belongs to one parameter.
struct all_parameters {
  __device__ std::size_t operator()(std::size_t i) const { return i; }
};

/// The gradient has rows of the parameters.
struct some_rows {
  const std::int64_t* rows;
  std::size_t row_size;

  __device__ std::size_t operator()(std::size_t i) const {
    return std::size_t(rows[i / row_size]) * row_size + i % row_size;
  }
};

} // namespace

cudaError_t update(const rule_coefficients& step, float* values,
                   const float* gradient, const std::array<float*, 2>& slots,
                   std::size_t n, const std::int32_t* is_skipped,
                   cudaStream_t stream) {
  return start(step, values, gradient, slots, n, is_skipped, stream,
               all_parameters{});
}

cudaError_t update_rows(const rule_coefficients& step, float* values,
                        const float* gradient, const std::int64_t* rows,
                        std::size_t row_size,
                        const std::array<float*, 2>& slots, std::size_t n,
                        cudaStream_t stream) {
  return start(step, values, gradient, slots, n, nullptr, stream,
               some_rows{rows, row_size});
}

cudaError_t find_exceeding(const float* x, std::size_t n, float limit,
                           std::int32_t* found, cudaStream_t stream) {
  return for_each(stream, n, [=] __device__(std::size_t i) {
    if (!(std::abs(x[i]) <= limit))
      *found = 1;
  });
}

} // namespace troupe::cuda
