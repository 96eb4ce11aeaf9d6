#pragma once

#include "troupe/tensors/op.hpp"

#include <compare>
#include <cstdint>

namespace troupe::cuda {

/// A matrix product c = f(A B + bias), where A is a or its transpose, and so is
/// B. All matrices are row-major.
/// @shape A [m, k], B [k, n], c [m, n], bias [n]
struct product {
  std::int64_t m, n, k;
  bool a_transposed = false, b_transposed = false;
  bool add = false; ///< The product is added to c. Without bias.
  bool bias = false;

  friend auto operator<=>(const product&, const product&) = default;
};

/// Starts a product in the stream of a call's device. The arithmetic is that of
/// float32, of TF32 if `context::allows_tf32`, or of float64. With bfloat16,
/// products are added in float32. The bits do not depend on the addresses.
/// @param bias of the dtype of c. Not for float64. Empty: there is none.
/// @param c not empty, and k > 0. Of the dtype of a and b, or float32.
/// @errors throws device_error with the extents.
/// @cost the first product of each form chooses an algorithm. Elements whose
///       address is not a multiple of 16 are copied.
void multiply(const op_call& call, const product& form, const tensor& a,
              const tensor& b, const tensor& bias, tensor& c);

} // namespace troupe::cuda
