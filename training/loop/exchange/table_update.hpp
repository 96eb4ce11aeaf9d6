#pragma once

#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/training/loop/model/claimed_slices.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/model/update_target.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace troupe {

/// Updates the rows of tables that occur in a step, as a part of a shared
/// update (shared_update.hpp) on the CPU. The row of a replica is the sum over
/// its examples, in order of their occurrence. The rows of the replicas are
/// added in tree order, a replica that lacks a row being skipped. The other
/// rows and their slots keep their bits. The replicas claim slices of the rows.
/// @cost of a step: for each replica, one read of the rows that occur, and one
///       read and write of their parameters and slots. The number of rows of
///       the table has no influence.
class table_update {
public:
  /// @param tables numbers of the parameters.
  /// @pre the replicas share one copy of the parameters.
  table_update(model_state& model, std::vector<std::size_t> tables);

  const std::vector<variable>& variables() const { return variables_; }

  /// Rows of a replica in this step, by table. The replica sets them before it
  /// waits for the gradients of the others.
  parameter_gradients& rows_of(std::uint32_t replica) { return rows_[replica]; }

  /// Sets the rows of a replica without examples.
  void clear_rows(std::uint32_t replica);

  /// True if no element of the replica's rows exceeds `limit` in magnitude.
  bool are_rows_below(std::uint32_t replica, float limit) const;

  // The next functions are called where `shared_update` calls its functions of
  // these names.

  void reset();
  bool sums_are_finite() const;
  void apply(const rule_step& update) noexcept;

private:
  struct table {
    std::size_t row_elements;
    std::int64_t rows;
    update_target target;
  };

  const sparse_rows& rows(std::uint32_t replica, std::size_t table) const {
    return rows_[replica][table].rows();
  }
  std::uint32_t longest(std::size_t table) const;
  void apply(const rule_step& update, std::size_t table);
  template <class F>
  void for_each_sum(std::size_t table, std::int64_t first, std::int64_t last,
                    const F& fn) const;

  const std::size_t slice_elements_;
  std::vector<variable> variables_;
  std::vector<table> tables_;
  std::vector<parameter_gradients> rows_; ///< By replica and table.
  std::deque<claimed_slices> slices_;     ///< By table.
};

} // namespace troupe
