#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/row_range.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// Some rows of a batch; shares the elements.
batch cut(const batch& from, const share& rows);

/// Of a global batch the rows of this process's replicas.
struct local_batch {
  batch rows;
  std::int64_t first = 0; ///< Where they begin in the global batch.
  std::int64_t whole = 0; ///< Rows of that.

  /// A replica's part; shares the elements. @pre the replica is of this
  /// process.
  batch part_of(std::uint32_t replica, std::uint32_t replicas) const;
};

/// Reads the global batches of a pass as far as this process needs them: all
/// rows only where it has all replicas, or where they cannot be told apart
/// before they are read (dataset::part).
class local_batches {
public:
  local_batches(const data::dataset& batches, const data::position& from,
                const crew::share& here, std::uint32_t replicas);

  /// @returns none at the end of the pass.
  /// @errors throws what reading throws, std::logic_error for single examples.
  std::optional<local_batch> next();

  data::position save() const { return cursor_.save(); }

private:
  data::dataset batches_;
  crew::share here_;
  std::uint32_t replicas_;
  bool apart_; ///< Whether the cursor reads these rows alone.
  data::cursor cursor_;
};

} // namespace troupe
