#pragma once

#include "troupe/tensors/base/bfloat16.hpp"
#include "troupe/tensors/ops/conv_geometry.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

// The library calls oneDNN only through these functions, because oneDNN's own
// interface changes with its versions. Primitives are prepared once for each
// shape and context; a repeated call prepares nothing. Operands are float32 or
// bfloat16. Products are added in float32, and a result in bfloat16 is rounded
// once. Users do not need this file.

namespace troupe::onednn {

/// True if the processor has instructions for products of bfloat16 (AVX-512
/// BF16 or AMX), and oneDNN uses them. Without them oneDNN is slower than in
/// float32, or cannot compute in bfloat16 at all.
bool supports_bfloat16();

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

/// @tparam T float or bfloat16.
template <class T>
void run(const matmul& what, const T* a, const T* b,
         const std::type_identity_t<T>* bias, T* c);

/// Computes a convolution and adds the bias.
/// @tparam In  float or bfloat16.
/// @tparam Out `In`, or float.
template <class In, class Out>
void forward(const conv_geometry& what, const In* x, const In* weights,
             const In* bias, Out* y);
template <class In, class Out>
void backward_data(const conv_geometry& what, const In* gy, const In* weights,
                   Out* gx);
/// Computes the gradient of the weights only. The caller computes the gradient
/// of the bias as a column sum, because oneDNN would take twice as long.
template <class In, class Out>
void backward_weights(const conv_geometry& what, const In* x, const In* gy,
                      Out* gw);

/// Sets the number of threads for ops of the calling thread.
void set_threads(int count);
int threads();

} // namespace troupe::onednn
