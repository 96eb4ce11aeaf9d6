#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

// Hot loops over raw float32 buffers, compiled for several instruction sets
// (cmake/Kernels.cmake). They check nothing. All levels give the same bits:
// nothing is contracted, and what is summed goes to lanes whose number does not
// depend on the level. (Which NaN comes out, should two meet, is left open.) No
// result depends on a pointer's alignment. `x[m, n]` is row-major.

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
  /// out[m, n] = x[m, n] * factors[m], or += that; `out` may be `x`.
  void (*scale_rows)(float* out, const float* x, const float* factors,
                     std::size_t m, std::size_t n, bool accumulate);
  /// Whether an infinity or a NaN is among them.
  bool (*any_nonfinite)(const float* x, std::size_t n);
  /// out = e^x; at most 1 ulp off, subnormal results at most 1 ulp of theirs.
  /// `out` may be `x`.
  void (*exp)(float* out, const float* x, std::size_t n);
};

struct reduction_kernels {
  /// Sums of 4096 elements in 16 float32 lanes, added up in float64.
  double (*sum)(const float* x, std::size_t n);
  /// Likewise, of squares.
  double (*sum_of_squares)(const float* x, std::size_t n);
  /// sums[n] = the columns of x[m, n] added up, or += that; blocks of 128 rows
  /// in order.
  void (*column_sums)(const float* x, std::size_t m, std::size_t n, float* sums,
                      bool accumulate);
  /// `relu_mask(g, y)` and `column_sums(g)` in one pass.
  void (*masked_column_sums)(float* g, const float* y, std::size_t m,
                             std::size_t n, float* sums, bool accumulate);
  /// out[m, n] = softmax of each row of x; `out` may be `x`.
  void (*softmax)(float* out, const float* x, std::size_t m, std::size_t n);
  /// losses[m] = -log softmax(logits[m, n])[label], and
  /// gradient[m, n] = softmax(logits) - onehot(label), which may be `logits`.
  /// A row with an infinity that is not -inf, or a NaN, has the loss NaN.
  /// @returns the first row whose label is not in [0, n), and then that row
  ///          and those after it are not written; m if there is none.
  std::size_t (*softmax_cross_entropy)(const float* logits,
                                       const std::int32_t* labels,
                                       std::size_t m, std::size_t n,
                                       float* losses, float* gradient);
};

/// Pooling of images x[count, height, width, channels].
struct pool_window {
  std::size_t count, height, width, channels;
  std::size_t out_height, out_width;
  std::size_t window_height, window_width; ///< At most 256 places together.
  std::size_t stride_height, stride_width;
  std::size_t top = 0, left = 0; ///< Padding, which never is the largest.
};

struct pooling_kernels {
  /// out[count, out_height, out_width, channels] = the largest in each window,
  /// NaN if there is one; `places` says which (its number in the window, row by
  /// row; the first of equals).
  void (*max_pool)(const pool_window& at, const float* x, float* out,
                   std::uint8_t* places);
  /// The gradient of that, written to (or added to) all of `grad_x`.
  void (*max_pool_backward)(const pool_window& at, const float* grad_out,
                            const std::uint8_t* places, float* grad_x,
                            bool accumulate);
};

/// The numbers of one Adam step, in the names of update_rules.hpp.
struct adam_numbers {
  float rate;         ///< learning rate / (1 - beta1^t)
  float beta1, rest1; ///< beta1 and 1 - beta1
  float beta2, rest2; ///< beta2 and 1 - beta2
  float root;         ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float keep; ///< 1 - learning rate * weight decay
};

/// One pass over a range of parameters; `scale` multiplies the gradient first.
struct update_kernels {
  /// x -= rate * g
  void (*sgd)(float* x, const float* g, std::size_t n, float rate, float scale);
  /// v = momentum * v + g, x -= rate * v
  void (*momentum)(float* x, const float* g, float* v, std::size_t n,
                   float rate, float momentum, float scale);
  /// v = momentum * v + g, x -= rate * (g + momentum * v)
  void (*nesterov)(float* x, const float* g, float* v, std::size_t n,
                   float rate, float momentum, float scale);
  /// m = beta1 * m + rest1 * g, v = beta2 * v + rest2 * g^2,
  /// x = keep * x - rate * m / (root * sqrt(v) + epsilon)
  void (*adam)(float* x, const float* g, float* m, float* v, std::size_t n,
               const adam_numbers& by, float scale);
};

struct random_kernels {
  /// out[4 * blocks] = the blocks `first`, `first` + 1, ... of the stream with
  /// this key[2], whose counters have high[2] above the block's number.
  void (*philox)(std::uint32_t* out, std::uint64_t first, std::size_t blocks,
                 const std::uint32_t* high, const std::uint32_t* key);
};

struct kernel_table : elementwise_kernels,
                      reduction_kernels,
                      pooling_kernels,
                      update_kernels,
                      random_kernels {
  std::string_view level; ///< "baseline"; on x86-64 also "v3" and "v4".
};

/// The kernels of the best level that the processor has, or of the one that the
/// environment variable TROUPE_LEVEL names.
/// @errors throws std::runtime_error if that one is not among `kernel_levels`.
const kernel_table& kernels();

/// The level of `kernels()`.
std::string_view kernel_level();

/// All levels that this build and this processor have, the best last.
std::span<const kernel_table> kernel_levels();

} // namespace troupe
