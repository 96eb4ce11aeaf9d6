#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

// Kernels are the innermost loops over raw float32 buffers. They are compiled
// for several instruction sets, called levels (cmake/Kernels.cmake). Kernels do
// not check their arguments. All levels compute the same bits: no fused
// multiply-add is used, and every level adds in the same number of lanes. If
// both operands are NaN, it is unspecified which of them results. No result
// depends on the alignment of a pointer. `x[m, n]` is row-major.

struct elementwise_kernels {
  /// out = a + b; `out` may be `a` or `b`.
  void (*add)(float* out, const float* a, const float* b, std::size_t n);
  /// sum += x
  void (*add_into)(float* sum, const float* x, std::size_t n);
  /// x *= factor
  void (*scale)(float* x, float factor, std::size_t n);
  /// y += factor * x
  void (*axpy)(float* y, float factor, const float* x, std::size_t n);
  /// x[m, n] += bias[n]
  void (*bias_add)(float* x, const float* bias, std::size_t m, std::size_t n);
  /// x[m, n] = relu(x + bias[n])
  void (*bias_add_relu)(float* x, const float* bias, std::size_t m,
                        std::size_t n);
  /// out = x > 0 ? x : 0, and NaN stays NaN; `out` may be `x`.
  void (*relu)(float* out, const float* x, std::size_t n);
  /// g = y > 0 ? g : 0, where y is relu's output.
  void (*relu_mask)(float* g, const float* y, std::size_t n);
  /// out = in * factor
  void (*from_bytes)(float* out, const std::uint8_t* in, float factor,
                     std::size_t n);
  /// out[m, n] = x[m, n] * factors[m]; += instead of = if `accumulate`. `out`
  /// may be `x`.
  void (*scale_rows)(float* out, const float* x, const float* factors,
                     std::size_t m, std::size_t n, bool accumulate);
  /// True if the magnitude of an element exceeds `limit`, or an element is NaN.
  /// @param limit at least 0. With the greatest finite number, the kernel finds
  ///              infinities and NaN.
  bool (*any_exceeds)(const float* x, std::size_t n, float limit);
  /// out = e^x, with an error of at most 1 ulp, also for subnormal results.
  /// `out` may be `x`.
  void (*exp)(float* out, const float* x, std::size_t n);
  /// losses = max(x, 0) - x * targets + log(1 + e^-|x|), and gradient =
  /// sigmoid(x) - targets. NaN stays NaN.
  void (*sigmoid_cross_entropy)(float* losses, float* gradient, const float* x,
                                const float* targets, std::size_t n);
  // Elements of bfloat16 are given as their bits, and do not overlap floats.
  /// out = x, rounded as by `bfloat16{x}`.
  void (*to_bfloat16)(std::uint16_t* out, const float* x, std::size_t n);
  /// out = x
  void (*from_bfloat16)(float* out, const std::uint16_t* x, std::size_t n);
  /// x = x > 0 ? x : 0, and NaN stays NaN.
  void (*relu_bfloat16)(std::uint16_t* x, std::size_t n);
  /// g = y > 0 ? g : 0, where y is relu's output.
  void (*relu_mask_bfloat16)(std::uint16_t* g, const std::uint16_t* y,
                             std::size_t n);
};

struct reduction_kernels {
  /// Sum. Each block of 4096 elements is added in 16 float32 lanes; the sums of
  /// the blocks are added in float64.
  double (*sum)(const float* x, std::size_t n);
  /// Sum of squares, added in the order of `sum`.
  double (*sum_of_squares)(const float* x, std::size_t n);
  /// sums[n] = column sums of x[m, n]; += instead of = if `accumulate`. Row i
  /// of x begins at element i * stride. Sums each block of 128 rows separately,
  /// then adds these sums in order.
  void (*column_sums)(const float* x, std::size_t m, std::size_t n,
                      std::size_t stride, float* sums, bool accumulate);
  /// `relu_mask(g, y)` and `column_sums(g)` in one pass. `stride` also applies
  /// to y.
  void (*masked_column_sums)(float* g, const float* y, std::size_t m,
                             std::size_t n, std::size_t stride, float* sums,
                             bool accumulate);
  /// `column_sums` of bfloat16, added in float32.
  void (*column_sums_bfloat16)(const std::uint16_t* x, std::size_t m,
                               std::size_t n, std::size_t stride, float* sums,
                               bool accumulate);
  /// out[m, n] = softmax of each row of x; `out` may be `x`.
  void (*softmax)(float* out, const float* x, std::size_t m, std::size_t n);
  /// losses[m] = -log softmax(logits[m, n])[label], and gradient[m, n] =
  /// softmax(logits) - onehot(label). `gradient` may be `logits`. A row that
  /// contains NaN or +infinity has the loss NaN.
  /// @returns the first row whose label is not in [0, n); this row and the
  ///          following ones are not written. m: all labels are valid.
  std::size_t (*softmax_cross_entropy)(const float* logits,
                                       const std::int32_t* labels,
                                       std::size_t m, std::size_t n,
                                       float* losses, float* gradient);
};

/// Extents of a pooling of images x[count, height, width, channels].
struct pool_window {
  std::size_t count, height, width, channels;
  std::size_t out_height, out_width;
  std::size_t window_height, window_width; ///< Product: at most 256.
  std::size_t stride_height, stride_width;
  std::size_t top = 0, left = 0; ///< Padding at the top and left.
};

struct pooling_kernels {
  /// out[count, out_height, out_width, channels] = maximum of each window, or
  /// NaN if the window contains a NaN. Padding is never the maximum. `indices`
  /// receives the position of the maximum within its window, in row-major
  /// order. If several values are the maximum, it is the first position.
  void (*max_pool)(const pool_window& window, const float* x, float* out,
                   std::uint8_t* indices);
  /// Writes the gradient of `max_pool` to all of `grad_x`, or adds it if
  /// `accumulate`.
  void (*max_pool_backward)(const pool_window& window, const float* grad_out,
                            const std::uint8_t* indices, float* grad_x,
                            bool accumulate);
};

/// Coefficients of one Adam step; update_rules.hpp defines their symbols.
struct adam_coefficients {
  float step_size; ///< learning rate / (1 - beta1^t)
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float inv_sqrt_bias_correction; ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float decay_factor; ///< 1 - learning rate * weight decay
};

/// Coefficients of one FTRL step; update_rules.hpp defines their symbols.
struct ftrl_coefficients {
  float learning_rate; ///< Not 0.
  float twice_l2_shrinkage;
  float l1;
  float added_to_denominator; ///< 2 * l2 + beta / learning rate
};

/// Updates a range of parameters in one pass. The gradient is multiplied by
/// `scale` first.
struct update_kernels {
  /// x -= rate * g
  void (*sgd)(float* x, const float* g, std::size_t n, float rate, float scale);
  /// v = momentum * v + g, x -= rate * v
  void (*momentum)(float* x, const float* g, float* v, std::size_t n,
                   float rate, float momentum, float scale);
  /// v = momentum * v + g, x -= rate * (g + momentum * v)
  void (*nesterov)(float* x, const float* g, float* v, std::size_t n,
                   float rate, float momentum, float scale);
  /// m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g^2,
  /// x = decay_factor * x
  ///     - step_size * m / (inv_sqrt_bias_correction * sqrt(v) + epsilon)
  void (*adam)(float* x, const float* g, float* m, float* v, std::size_t n,
               const adam_coefficients& coefficients, float scale);
  /// sum += g^2, x -= rate * g / sqrt(sum + epsilon)
  void (*adagrad)(float* x, const float* g, float* sum, std::size_t n,
                  float rate, float epsilon, float scale);
  /// z += g + twice_l2_shrinkage * x
  ///      - (sqrt(sum + g^2) - sqrt(sum)) / learning_rate * x, sum += g^2,
  /// x = (clip(z, -l1, l1) - z)
  ///     / (sqrt(sum) / learning_rate + added_to_denominator)
  void (*ftrl)(float* x, const float* g, float* sum, float* z, std::size_t n,
               const ftrl_coefficients& coefficients, float scale);
};

struct random_kernels {
  /// out[4 * blocks] = blocks `first`, `first` + 1, ... of the Philox stream
  /// with the key `key[2]`. The upper half of a block's counter is `high[2]`,
  /// the lower half is the number of the block.
  void (*philox)(std::uint32_t* out, std::uint64_t first, std::size_t blocks,
                 const std::uint32_t* high, const std::uint32_t* key);
};

struct kernel_table : elementwise_kernels,
                      reduction_kernels,
                      pooling_kernels,
                      update_kernels,
                      random_kernels {
  std::string_view level; ///< "baseline"; on x86-64 also "v3", "v4".
};

/// Returns the kernels of the highest level that the processor supports, or of
/// the level in the environment variable TROUPE_LEVEL.
/// @errors throws std::runtime_error if that level is not in `kernel_levels`.
const kernel_table& kernels();

/// Name of the instruction-set level of `kernels()`.
std::string_view kernel_level();

/// All levels that this build contains and this processor supports, in
/// ascending order.
std::span<const kernel_table> kernel_levels();

} // namespace troupe
