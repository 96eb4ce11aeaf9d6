#include "troupe/tensors/cuda/kernels/row_sums.hpp"

#include "troupe/tensors/cuda/elements.cuh"
#include "troupe/tensors/cuda/kernels/row_order.hpp"
#include "troupe/tensors/cuda/launch.cuh"

namespace troupe::cuda {

namespace {

constexpr const char* kernel_name = "a kernel that adds rows";

/// `row_order` as kernels read it.
struct ordered_parts {
  const std::uint64_t* parts;
  std::size_t count;
  unsigned position_bits;
  std::uint64_t rows;

  explicit ordered_parts(const row_order& x)
    : parts{elements<std::uint64_t>(x.parts)},
      count{x.parts.size()},
      position_bits{x.position_bits},
      rows{static_cast<std::uint64_t>(x.rows)} {}

  __device__ std::uint64_t row(std::size_t place) const {
    return parts[place] >> position_bits;
  }
  /// Returns where the part at a place is in the list.
  __device__ std::size_t position(std::size_t place) const {
    return parts[place] & ((std::uint64_t{1} << position_bits) - 1);
  }
  /// True if the first part of a row is at a place.
  __device__ bool is_first(std::size_t place) const {
    return row(place) < rows && (place == 0 || row(place - 1) != row(place));
  }
};

/// Adds element k of all parts from a place on that belong to `row`, one after
/// the other.
template <class T>
__device__ number_of<T> add_parts(number_of<T> sum, const ordered_parts& list,
                                  std::size_t place, std::uint64_t row,
                                  const T* elements, std::size_t row_size,
                                  std::size_t k) {
  // Several parts are loaded before the first is added, so that the loads
  // overlap.
  constexpr int batch = 8;
  bool is_last = false;
  for (; !is_last; place += batch) {
    number_of<T> loaded[batch];
    bool belongs[batch];
    for (int i = 0; i < batch; ++i) {
      const auto at = place + i;
      belongs[i] = at < list.count && list.row(at) == row;
      loaded[i] =
        belongs[i] ? number(elements[list.position(at) * row_size + k]) : 0;
    }
    for (int i = 0; i < batch; ++i)
      if (belongs[i])
        sum = sum_of(sum, loaded[i]);
    is_last = !belongs[batch - 1];
  }
  return sum;
}

template <class T>
void start_adding(const sparse_rows& rows, const ordered_parts& list,
                  tensor& sum) {
  const auto size = rows.row_size();
  const auto* const from = elements<T>(rows.rows());
  auto* const to = mutable_elements<T>(sum);
  check(for_each(compute_stream(sum.device()), list.count * size,
                 [=] __device__(std::size_t i) {
                   const auto place = i / size, k = i % size;
                   if (!list.is_first(place))
                     return;
                   const auto row = list.row(place);
                   auto& element_of_sum = to[row * size + k];
                   element_of_sum = element<T>(add_parts(
                     number(element_of_sum), list, place, row, from, size, k));
                 }),
        kernel_name);
}

/// @param numbers by place: how many rows have their first part there or
///        before.
template <class T>
void start_summing(const sparse_rows& rows, const ordered_parts& list,
                   const tensor& numbers, tensor& sums) {
  const auto size = rows.row_size();
  const auto* const from = elements<T>(rows.rows());
  const auto* const number_at = elements<std::int64_t>(numbers);
  auto* const to = mutable_elements<T>(sums);
  check(for_each(compute_stream(sums.device()), list.count * size,
                 [=] __device__(std::size_t i) {
                   const auto place = i / size, k = i % size;
                   if (!list.is_first(place))
                     return;
                   // A single part is copied.
                   const auto first =
                     number(from[list.position(place) * size + k]);
                   to[std::size_t(number_at[place] - 1) * size + k] =
                     element<T>(add_parts(first, list, place + 1,
                                          list.row(place), from, size, k));
                 }),
        kernel_name);
}

/// Returns the rows that occur, after their number, and sets `numbers` to how
/// many rows have their first part at a place or before.
tensor list_rows(const ordered_parts& list, tensor& numbers) {
  const auto on = numbers.device();
  const auto n = list.count;
  const auto stream = compute_stream(on);
  auto* const to = mutable_elements<std::int64_t>(numbers);
  check(for_each(stream, n,
                 [=] __device__(std::size_t place) {
                   to[place] = list.is_first(place);
                 }),
        kernel_name);
  sum_up(numbers);
  tensor listed{{{static_cast<std::int64_t>(n + 1)}, dtype::int64}, on};
  auto* const rows = mutable_elements<std::int64_t>(listed);
  check(for_each(stream, n,
                 [=] __device__(std::size_t place) {
                   if (list.is_first(place))
                     rows[to[place]] = std::int64_t(list.row(place));
                   if (place + 1 == n)
                     rows[0] = to[place];
                 }),
        kernel_name);
  return listed;
}

row_order order_of(const sparse_rows& rows) {
  return order_by_row(rows.indices().to(rows.rows().device()),
                      rows.dims().front());
}

} // namespace

void add_rows(const sparse_rows& rows, tensor& sum) {
  if (rows.count() == 0 || sum.size() == 0)
    return;
  const auto order = order_of(rows);
  with_element_type(rows.type(), [&]<class T>(T) {
    start_adding<T>(rows, ordered_parts{order}, sum);
  });
}

sparse_rows sum_rows(const sparse_rows& rows) {
  if (rows.count() == 0)
    return rows;
  const auto on = rows.rows().device();
  const auto order = order_of(rows);
  const ordered_parts list{order};
  tensor numbers{{{static_cast<std::int64_t>(list.count)}, dtype::int64}, on};
  const auto listed = list_rows(list, numbers).to({});
  const auto count = listed.data<std::int64_t>()[0];
  tensor sums{{rows.dims().with_extent(0, count), rows.type()}, on};
  with_element_type(rows.type(), [&]<class T>(T) {
    start_summing<T>(rows, list, numbers, sums);
  });
  return {rows.dims(), listed.range(1, std::size_t(count) + 1).clone(),
          std::move(sums)};
}

} // namespace troupe::cuda
