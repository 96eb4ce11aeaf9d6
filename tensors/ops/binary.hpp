#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

// Elementwise ops on two tensors of one dtype, float32 or float64, with NumPy's
// broadcasting. The gradient of a broadcast operand is summed over the
// broadcast axes, in row-major order.
// @errors throws std::logic_error with both shapes.

tensor add(const tensor& a, const tensor& b);
tensor subtract(const tensor& a, const tensor& b);
tensor multiply(const tensor& a, const tensor& b);
tensor divide(const tensor& a, const tensor& b);

inline tensor operator+(const tensor& a, const tensor& b) {
  return add(a, b);
}
inline tensor operator-(const tensor& a, const tensor& b) {
  return subtract(a, b);
}
inline tensor operator*(const tensor& a, const tensor& b) {
  return multiply(a, b);
}
inline tensor operator/(const tensor& a, const tensor& b) {
  return divide(a, b);
}

/// Operators with a scalar, which is converted to the tensor's dtype.
tensor operator*(const tensor& a, double b);
tensor operator/(const tensor& a, double b);
tensor operator+(const tensor& a, double b);
tensor operator-(const tensor& a, double b);
tensor operator*(double a, const tensor& b);
tensor operator/(double a, const tensor& b);
tensor operator+(double a, const tensor& b);
tensor operator-(double a, const tensor& b);

/// Returns -1 * a.
tensor operator-(const tensor& a);

namespace ops {

extern const op add, subtract, multiply, divide;

} // namespace ops

} // namespace troupe
