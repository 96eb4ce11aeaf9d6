#pragma once

#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstddef>

namespace troupe::parameter_server {

/// Values for some rows of a variable, of any dtype. Unlike `sparse_rows`, they
/// need not be a gradient.
class row_list {
public:
  row_list() = default; ///< Empty: no rows are given.

  /// @param dims shape of the whole variable.
  /// @param indices numbers of the rows, in any order; a row can occur more
  ///        than once.
  /// @shape dims [n, d...], indices [m] int64, rows [m, d...]
  /// @errors throws std::logic_error with the shapes if they do not fit, and
  ///         std::out_of_range that names a row that does not exist.
  row_list(const shape& dims, tensor indices, tensor rows);
  row_list(const sparse_rows& gradient)
    : dims_{gradient.dims()},
      indices_{gradient.indices()},
      rows_{gradient.rows()} {}

  const shape& dims() const { return dims_; } ///< Of the whole variable.
  dtype type() const { return rows_.type(); }
  const tensor& indices() const { return indices_; } ///< [m] int64
  const tensor& rows() const { return rows_; }       ///< [m, d...]
  /// Number of elements of a row.
  std::size_t row_size() const {
    return dims_.axes(1, dims_.rank()).elements();
  }
  explicit operator bool() const { return static_cast<bool>(indices_); }

  /// Returns the rows as a gradient.
  /// @errors throws std::logic_error unless the dtype is a float.
  sparse_rows gradient() const { return {dims_, indices_, rows_}; }

private:
  shape dims_;
  tensor indices_, rows_;
};

} // namespace troupe::parameter_server
