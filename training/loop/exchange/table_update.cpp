#include "troupe/training/loop/exchange/table_update.hpp"

#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/base/small_list.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace troupe {

namespace {

/// Computes the sum of n elements of a row over replicas [a, b) in tree order.
/// @param leaves By replica: the elements. Null: the replica lacks the row.
/// @param out memory for the sum. @pre `n <= tree::block`.
/// @returns the sum. Null: all of these replicas lack the row.
const float* fold_row(std::size_t a, std::size_t b, std::size_t n,
                      const float* const* leaves, float* out) {
  if (b - a == 1)
    return leaves[a];
  const auto cut = a + tree::split(b - a);
  const auto* left = fold_row(a, cut, n, leaves, out);
  if (!left)
    return fold_row(cut, b, n, leaves, out);
  alignas(64) float sum[tree::block];
  const auto* right = fold_row(cut, b, n, leaves, sum);
  if (!right)
    return left;
  tree::add(out, left, right, n);
  return out;
}

/// The rows of a replica that are not yet added.
struct remaining_rows {
  std::span<const std::int64_t> numbers;
  const float* elements; ///< Elements of the first row.
};

constexpr std::size_t max_inline_replicas = 16;

} // namespace

table_update::table_update(model_state& model, std::vector<std::size_t> tables)
  : slice_elements_{slice_elements(model.strategy->threads)},
    slices_(tables.size()) {
  const auto& all = model.model_parameters;
  for (const auto i : tables) {
    const auto& x = all.variables()[i];
    const auto begin = all.offset(i), end = begin + x.dims().elements();
    tensors slots;
    for (const auto& one : model.slots[0])
      slots.push_back(one.range(begin, end));
    variables_.push_back(x);
    tables_.push_back({x.dims().axes(1, x.dims().rank()).elements(),
                       x.dims().front(),
                       {all.values().range(begin, end), slots}});
  }
  rows_.assign(all.replicas(), parameter_gradients(tables.size()));
}

void table_update::clear_rows(std::uint32_t replica) {
  for (std::size_t i = 0; i < variables_.size(); ++i)
    rows_[replica][i] = sparse_rows::zeros({variables_[i].dims()});
}

bool table_update::are_rows_below(std::uint32_t replica, float limit) const {
  return std::ranges::none_of(
    rows_[replica], [limit](const parameter_gradient& x) {
      const auto elements = x.rows().rows().data<float>();
      return kernels().any_exceeds(elements.data(), elements.size(), limit);
    });
}

void table_update::reset() {
  for (auto& one : slices_)
    one.reset();
}

/// Calls `fn(row, at, sum, n)` for the sum over replicas of each row that
/// occurs in [first, last), from its element `at` on.
template <class F>
void table_update::for_each_sum(std::size_t table, std::int64_t first,
                                std::int64_t last, const F& fn) const {
  const auto size = tables_[table].row_elements;
  const auto replicas = rows_.size();
  small_list<remaining_rows, max_inline_replicas> left(replicas);
  small_list<const float*, max_inline_replicas> row(replicas), leaves(replicas);
  for (std::uint32_t r = 0; r < replicas; ++r) {
    const auto& of = rows(r, table);
    const auto numbers = of.indices().data<std::int64_t>();
    const auto begin = std::ranges::lower_bound(numbers, first);
    const auto end = std::ranges::lower_bound(begin, numbers.end(), last);
    left[r] = {{begin, end},
               of.rows().data<float>().data()
                 + static_cast<std::size_t>(begin - numbers.begin()) * size};
  }
  for (;;) {
    auto next = last;
    for (const auto& one : left)
      if (!one.numbers.empty())
        next = std::min(next, one.numbers.front());
    if (next == last)
      return;
    for (std::size_t r = 0; r < replicas; ++r) {
      auto& one = left[r];
      row[r] = nullptr;
      if (one.numbers.empty() || one.numbers.front() != next)
        continue;
      row[r] = one.elements;
      one.elements += size;
      one.numbers = one.numbers.subspan(1);
    }
    alignas(64) float sum[tree::block];
    for (std::size_t at = 0; at < size; at += tree::block) {
      const auto n = std::min(tree::block, size - at);
      for (std::size_t r = 0; r < replicas; ++r)
        leaves[r] = row[r] ? row[r] + at : nullptr;
      fn(next, at, fold_row(0, replicas, n, leaves.data(), sum), n);
    }
  }
}

/// Each replica checks all sums, because large gradients are rare.
bool table_update::sums_are_finite() const {
  bool finite = true;
  for (std::size_t i = 0; i < tables_.size(); ++i)
    for_each_sum(
      i, 0, tables_[i].rows,
      [&](std::int64_t, std::size_t, const float* sum, std::size_t n) {
        finite =
          finite
          && !kernels().any_exceeds(sum, n, std::numeric_limits<float>::max());
      });
  return finite;
}

/// Returns the replica with the most rows of a table.
std::uint32_t table_update::longest(std::size_t table) const {
  std::uint32_t found = 0;
  for (std::uint32_t r = 1; r < rows_.size(); ++r)
    if (rows(r, table).count() > rows(found, table).count())
      found = r;
  return found;
}

void table_update::apply(const rule_step& update) noexcept {
  const flush_denormals flushing;
  for (std::size_t i = 0; i < tables_.size(); ++i)
    apply(update, i);
}

/// Divides the table where the rows of the replica with the most rows are
/// divided evenly.
void table_update::apply(const rule_step& update, std::size_t table) {
  const auto& of = tables_[table];
  const auto size = of.row_elements;
  const auto numbers =
    rows(longest(table), table).indices().data<std::int64_t>();
  const auto count = numbers.size();
  const auto row_at = [&](std::size_t i) {
    return i == 0 ? 0 : i == count ? of.rows : numbers[i];
  };
  const auto update_rows = [&](std::size_t begin, std::size_t end) {
    for_each_sum(
      table, row_at(begin), row_at(end),
      [&](std::int64_t row, std::size_t at, const float* sum, std::size_t n) {
        of.target.update(update, static_cast<std::size_t>(row) * size + at, sum,
                         n);
      });
  };
  const element_range all{0, count};
  const auto rows_of_slice =
    std::max<std::size_t>(1, slice_elements_ / std::max<std::size_t>(1, size));
  slices_[table].for_each({&all, 1}, rows_of_slice,
                          [&](std::size_t, std::size_t begin, std::size_t end) {
                            for_ranges(
                              end - begin, (end - begin) * size,
                              [&](std::size_t first, std::size_t last) {
                                update_rows(begin + first, begin + last);
                              });
                          });
}

} // namespace troupe
