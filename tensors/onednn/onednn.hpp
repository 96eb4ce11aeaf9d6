#pragma once

#include <cstddef>
#include <cstdint>

// The only interface to oneDNN, whose own interface changes with its versions.
// Primitives are prepared once for each shape and context; a repeated call
// prepares nothing. Not for users.

namespace troupe::onednn {

/// c = a b [+ bias], or c += a b. There is no fused activation: oneDNN's relu
/// turns NaN into 0, which hides that training has failed.
struct matmul {
  std::int64_t m = 0, n = 0, k = 0; ///< a is [m, k], b [k, n], c [m, n].
  bool a_transposed = false;        ///< a is stored as [k, m].
  bool b_transposed = false;        ///< b is stored as [n, k].
  bool bias = false;                ///< [n]
  bool add = false;                 ///< Adds to c; then there is no bias.

  bool operator==(const matmul&) const = default;
};
void run(const matmul& what, const float* a, const float* b, const float* bias,
         float* c);

/// Images [n, h, w, ci], weights [kh, kw, ci, co], result [n, oh, ow, co].
struct convolution {
  std::int64_t n = 0, h = 0, w = 0, ci = 0, co = 0, kh = 0, kw = 0, oh = 0,
               ow = 0;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t top = 0, bottom = 0, left = 0, right = 0; ///< Padding.
  bool operator==(const convolution&) const = default;
};
void forward(const convolution& what, const float* x, const float* weights,
             const float* bias, float* y);
void backward_data(const convolution& what, const float* gy,
                   const float* weights, float* gx);
/// Gradient of the weights only: oneDNN's gradient of the bias takes twice as
/// long as a column sum.
void backward_weights(const convolution& what, const float* x, const float* gy,
                      float* gw);

/// Sets the number of threads for ops of the calling thread.
void set_threads(int count);
int threads();

} // namespace troupe::onednn
