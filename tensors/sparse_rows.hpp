#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// Some rows of a tensor along its first axis; all other rows are zero. The
/// gradient of a large table has this form, because a step reads few of its
/// rows. The elements are on any device; the indices are there or on the CPU.
class sparse_rows {
public:
  sparse_rows() = default; ///< Empty: no tensor.

  /// @param dims shape of the whole tensor.
  /// @param indices numbers of the rows, in any order; a row can occur more
  ///        than once. On a device, those of no row are left out, not an error.
  /// @shape dims [n, d...], indices [m] int64, rows [m, d...] float
  /// @errors throws std::logic_error with the shapes if they do not fit, and
  ///         std::out_of_range that names a row that does not exist.
  sparse_rows(const shape& dims, tensor indices, tensor rows);

  /// Returns a tensor of zeros.
  static sparse_rows zeros(const tensor_spec& spec);

  const shape& dims() const { return dims_; } ///< Shape of the whole tensor.
  dtype type() const { return rows_.type(); }
  const tensor& indices() const { return indices_; } ///< [m] int64
  const tensor& rows() const { return rows_; }       ///< [m, d...]
  std::size_t count() const { return indices_.size(); }
  /// Number of elements of a row.
  std::size_t row_size() const {
    return dims_.axes(1, dims_.rank()).elements();
  }
  explicit operator bool() const { return static_cast<bool>(indices_); }

  /// True if it is known that the rows are ascending, and each occurs once.
  bool is_sorted() const { return sorted_; }

  /// Returns the same tensor with ascending rows, each of which occurs once.
  /// Parts of one row are added in the order of their occurrence. In bfloat16,
  /// they are added in float32 and rounded once. The indices are on the CPU.
  /// @cost copies nothing if `is_sorted`; otherwise sorts the indices, reads
  ///       each part and writes each row once. bfloat16 costs two conversions
  ///       more on the CPU. On a device, the caller waits for the indices.
  sparse_rows sorted() const;

  /// Converts the elements; shares them if the dtype is `type` already.
  sparse_rows as(dtype type) const;

  /// Returns the whole tensor, on the device of the elements.
  tensor dense() const;

  /// Adds the rows to a tensor on their device, in their order.
  /// @errors throws std::logic_error if shape, dtype or device differ.
  void add_to(tensor& sum) const;

private:
  shape dims_;
  tensor indices_, rows_;
  bool sorted_ = true;
};

/// Returns all rows of several tensors, in their order.
/// @errors throws std::logic_error if shapes or dtypes differ, and if the list
///         is empty.
sparse_rows concat(std::span<const sparse_rows> list);

/// Adds the tensors of all replicas, in the order of the canonical tree
/// (docs/protocols/tree_reduction.md). A replica that lacks a row does not take
/// part in the sum of that row. So the bits depend on the rows only, and not on
/// the number of processes.
/// @param by_replica all sorted, with one shape and dtype; several: on the CPU.
/// @returns the sum, sorted.
/// @errors throws std::logic_error if a tensor is not sorted, if shapes or
///         dtypes differ, and if the list is empty.
/// @cost each of the log2(R) levels of the tree reads its rows once and writes
///       their sums once.
sparse_rows sum_over_replicas(std::span<const sparse_rows> by_replica);

} // namespace troupe
