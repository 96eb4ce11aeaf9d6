#pragma once

#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

/// The gradient of a variable or of a watched tensor: dense, or some rows of
/// it.
class parameter_gradient {
public:
  parameter_gradient() = default; ///< Empty: no gradient.
  parameter_gradient(tensor whole) : whole_{std::move(whole)} {}
  /// Sorts the rows.
  parameter_gradient(const sparse_rows& rows) : rows_{rows.sorted()} {}

  bool is_sparse() const { return static_cast<bool>(rows_); }
  explicit operator bool() const {
    return static_cast<bool>(whole_) || is_sparse();
  }
  const shape& dims() const {
    return is_sparse() ? rows_.dims() : whole_.dims();
  }
  dtype type() const { return is_sparse() ? rows_.type() : whole_.type(); }

  /// Returns the rows, sorted.
  /// @errors throws std::logic_error if the gradient is not sparse.
  const sparse_rows& rows() const;
  /// Returns the whole gradient.
  /// @cost no copy if it is dense.
  tensor dense() const { return is_sparse() ? rows_.dense() : whole_; }
  /// Returns the elements that are stored: all of a dense gradient, or those of
  /// its rows.
  tensor elements() const { return is_sparse() ? rows_.rows() : whole_; }

private:
  tensor whole_;
  sparse_rows rows_;
};

using parameter_gradients = std::vector<parameter_gradient>;

/// Returns the square root of the sum of the squares of all elements, computed
/// in float64. The rows that a sparse gradient lacks are zero.
/// @cost one read of the elements.
double global_norm(std::span<const parameter_gradient> list);

/// Scales all gradients by `max_norm / norm` if their global norm is greater
/// than `max_norm`, as tf.clip_by_global_norm does. Otherwise, and if the norm
/// is not finite, they remain as they are.
/// @returns the global norm before.
/// @errors throws std::invalid_argument unless `max_norm` is above 0.
/// @cost one read of the elements, and one copy if they are scaled.
/// @source Pascanu et al., ICML 2013.
double clip_by_global_norm(std::span<parameter_gradient> list, double max_norm);

} // namespace troupe
