#pragma once

#include "troupe/strategies/parameter_server/change_checks.hpp"
#include "troupe/strategies/parameter_server/row_map.hpp"
#include "troupe/strategies/parameter_server/row_sharding.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/optim/initializers.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

// The rows of one part of a table at its shard. A table is a large variable of
// which a step reads and changes few rows.

namespace troupe::parameter_server {

/// How the rows of a table begin, and which of them are kept. All parts of a
/// table have the same.
struct table_rules {
  /// Initial value of a row. It depends on the key and on the number of the row
  /// in the whole table.
  initializer initial{"uniform"};
  random_key key{};
  /// A row is kept from its gradient with this number on. The gradients before
  /// are dropped, and the row has its initial value. Other changes make a row
  /// at once. 0 and 1: from the first one on.
  std::uint32_t min_touches = 1;
  /// A row is dropped when it is in none of so many consecutive changes of the
  /// part. It has its initial value again. Zero: no row is dropped.
  std::uint32_t max_idle_changes = 0;
};

/// Maximum number of rows of a part of a table.
inline constexpr std::int64_t max_table_rows = std::int64_t{1} << 32;
/// Maximum number of elements of a row of a table: 1 GiB.
inline constexpr std::size_t max_row_elements = std::size_t{1} << 28;
/// Maximum of `table_rules::max_idle_changes`.
inline constexpr std::uint32_t max_idle_changes = 1u << 30;

struct table_image;

/// One part of a table, float32. It keeps the rows that were changed, each with
/// the slots of all optimizers of the part. Any other row has its initial
/// value, also its slots, and needs no memory. So the value of a row does not
/// depend on which rows were read or changed before it, and reads change
/// nothing. The operations are those of `stored_part`, with the same bits.
/// @cost memory of a row that is kept: its elements, its slots, and about 5
///       bytes; 4 bytes more with `max_idle_changes`. A row that is not yet
///       kept because of `min_touches` needs about 13 bytes.
class table_part {
public:
  /// @param table shape of the whole table, [n, d...].
  /// @param range the rows of this part.
  /// @errors throws std::invalid_argument if the table is a scalar, a row has
  ///         no element or more than `max_row_elements`, the range has more
  ///         than `max_table_rows` rows or is not of the table, or
  ///         `max_idle_changes` is above its maximum.
  table_part(const shape& table, row_range range, const table_rules& rules);

  tensor_spec spec() const; ///< Of this part.

  /// Checks a change without making it.
  /// @errors as `stored_part::check`; a gradient and a contribution must have
  ///         rows.
  void check(const part_change& change) const;

  /// Makes a change.
  /// @errors as `stored_part::apply`
  /// @cost one pass over the rows of the operand and their slots. A change of
  ///       all elements keeps the rows which it gives other bits than their
  ///       initial value. The first gradient of an optimizer copies all rows.
  ///       With `max_idle_changes`, also a pass over some rows, which is over
  ///       all of them in so many changes.
  void apply(const part_change& change);

  /// Number of changes so far.
  std::uint64_t version() const { return version_; }
  /// Returns all rows.
  tensor value() const;
  /// Returns some rows.
  /// @param rows counted from the first row of this part.
  /// @shape rows [m]; returns [m, d...]
  /// @errors throws std::invalid_argument that names a row if the part lacks
  ///         it.
  tensor rows(std::span<const std::int64_t> rows) const;
  /// Returns a slot of an optimizer for all rows.
  /// @errors as `stored_part::slot`
  tensor slot(std::uint32_t optimizer, const update_rule& rule,
              std::uint32_t index) const;
  /// Returns the number of steps of an optimizer.
  std::uint64_t steps(std::uint32_t optimizer) const;

  /// Returns a part that has the same state for some rows, and initial values
  /// for all others.
  /// @errors as `rows`
  table_part excerpt(std::span<const std::int64_t> rows) const;

  /// Returns what this part holds (table_image.hpp), and appends its tensors to
  /// `beside`. Rows that are idle (`max_idle_changes`) are left out.
  /// @cost a copy of all rows.
  table_image save(std::vector<tensor>& beside) const;
  /// Makes the part that was saved, and removes its tensors from `beside`.
  /// @param made a part without changes, with the arguments of the saved one.
  /// @errors throws std::invalid_argument that says what is impossible.
  static table_part restore(table_part made, const table_image& from,
                            std::span<const tensor>& beside);

  /// Number of rows that are kept.
  std::uint64_t size() const { return rows_.size(); }
  /// Bytes of all rows, their slots and the contributions that wait.
  std::uint64_t bytes() const;
  /// Returns the bytes by which a change would increase `bytes`, about.
  /// @cost for a change of all elements, one pass over the part.
  std::uint64_t growth(const part_change& change) const;

private:
  using entry = row_map::entry;
  struct optimizer_state {
    std::uint64_t steps = 0;
    std::size_t first = 0;      ///< Of its slots among those of a row.
    std::vector<float> initial; ///< By slot: value of its elements.
  };

  void check_operand(const part_change& change) const;
  void check_rule(const part_change& change) const;
  std::uint32_t number_of(std::int64_t row) const;
  std::uint32_t now() const { return static_cast<std::uint32_t>(version_); }
  bool is_idle(std::uint32_t last) const;
  bool is_idle(const entry& row) const;
  std::vector<std::uint32_t> kept_rows() const;
  entry find(std::uint32_t number) const;
  entry touch(std::uint32_t number);
  bool admits(std::uint32_t number);
  void drop_idle_rows();
  void fill_initial(std::uint32_t number, std::span<float> into) const;
  optimizer_state& state_of(const part_change& change);
  void apply_gradient(const part_change& change, const sparse_rows& sum);
  void apply_contributions(const part_change& change);
  void change_rows(const part_change& change);
  void change_all(const part_change& change);
  void restore_slot(const part_change& change);
  template <class F>
  void for_made_rows(const part_change& change, const F& fn) const;

  shape table_;
  row_range range_;
  std::size_t elements_; ///< Of a row.
  table_rules rules_;
  std::uint64_t version_ = 0;
  std::map<std::uint32_t, optimizer_state> optimizers_;
  /// The elements and slots of each row that is kept. With `max_idle_changes`,
  /// the tag is the change that has touched it last, modulo 2^32.
  row_map rows_;
  /// Rows that are not yet kept. Tags: their number of gradients, and the
  /// change that has touched them last.
  row_map candidates_;
  std::size_t next_bucket_ = 0, next_candidates_ = 0; ///< To look through.
  waiting_contributions<sparse_rows> contributions_;
  std::uint64_t next_step_ = 0; ///< All steps before it were applied.
};

} // namespace troupe::parameter_server
