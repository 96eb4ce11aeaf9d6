#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

namespace ops {
extern const op embedding_lookup;
} // namespace ops

/// Returns rows of a table: out[i...] = table[ids[i...]]. The gradient of the
/// table is sparse in `tape::sparse_gradients`; in `tape::gradient` it is
/// dense.
/// @param ids numbers of rows. A row can occur more than once.
/// @shape table [n, d...] float, ids [i...] int32 or int64; returns [i...,
/// d...]
/// @errors throws std::logic_error with the shapes if they do not fit, and
///         std::out_of_range that names an id that is not a row.
/// @cost reads and writes each of these rows once. A dense gradient costs a
///       write of the whole table, a sparse one does not.
tensor embedding_lookup(const tensor& table, const tensor& ids);

} // namespace troupe
