#pragma once

#include <cstddef>
#include <cstdint>

// The library calls oneDNN only through these functions, because oneDNN's own
// interface changes with its versions. Primitives are prepared once for each
// shape and context; a repeated call prepares nothing. Users do not need this
// file.

namespace troupe::onednn {

/// c = a b [+ bias], or c += a b. There is no fused activation: oneDNN's relu
/// turns NaN into 0, which hides that training has failed.
struct matmul {
  std::int64_t m = 0, n = 0, k = 0; ///< a is [m, k], b [k, n], c [m, n].
  bool a_transposed = false;        ///< a is stored as [k, m].
  bool b_transposed = false;        ///< b is stored as [n, k].
  bool bias = false;                ///< Adds a bias [n] to each row.
  bool add = false;                 ///< c += a b; not together with a bias.

  bool operator==(const matmul&) const = default;
};
void run(const matmul& what, const float* a, const float* b, const float* bias,
         float* c);

/// A convolution of images [n, h, w, ci] and weights [kh, kw, ci, co]. Its
/// result is [n, oh, ow, co].
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
/// Computes the gradient of the weights only. The caller computes the gradient
/// of the bias as a column sum, because oneDNN would take twice as long.
void backward_weights(const convolution& what, const float* x, const float* gy,
                      float* gw);

/// Sets the number of threads for ops of the calling thread.
void set_threads(int count);
int threads();

} // namespace troupe::onednn
