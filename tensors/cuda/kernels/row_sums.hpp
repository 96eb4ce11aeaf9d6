#pragma once

#include "troupe/tensors/sparse_rows.hpp"

namespace troupe::cuda {

// Sums of rows on a device, with the bits of those on the CPU. The rows are of
// float32, float64 or bfloat16, which is added in float32 and rounded once.
// Numbers that are no rows of the table are left out.

/// Starts to add rows to a tensor on their device, in their order.
/// @param rows the indices may be on the CPU.
/// @shape sum as `rows.dims()`, of the dtype of the rows.
/// @cost sorts the indices, reads each part once, and reads and writes each row
///       that occurs once.
void add_rows(const sparse_rows& rows, tensor& sum);

/// Returns the sum of the parts of each row, in ascending order of the rows.
/// The indices are on the CPU, the elements on the device.
/// @cost as `add_rows`, but the indices are sorted when it returns: the calling
///       thread waits for the device.
sparse_rows sum_rows(const sparse_rows& rows);

} // namespace troupe::cuda
