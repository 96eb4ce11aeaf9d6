#include "troupe/tensors/sparse_rows.hpp"

#include "troupe/tensors/base/row_order.hpp"
#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

bool is_on_host(const tensor& x) {
  return x.device().kind == device_kind::cpu;
}

shape dims_of_rows(const shape& dims, std::size_t count) {
  return dims.with_extent(0, static_cast<std::int64_t>(count));
}

void check_equal(const sparse_rows& a, const sparse_rows& b) {
  if (a.dims() == b.dims() && a.type() == b.type())
    return;
  throw std::logic_error(
    "rows of " + to_string(tensor_spec{a.dims(), a.type()}) + " and of "
    + to_string(tensor_spec{b.dims(), b.type()}) + " cannot be combined");
}

void check_list(std::span<const sparse_rows> list) {
  if (list.empty())
    throw std::logic_error("a sum or a list of no sparse rows");
  for (const auto& x : list)
    check_equal(list.front(), x);
}

template <class T>
void add_rows(T* sum, const T* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    sum[i] += x[i];
}

/// Adds the parts of each row.
template <class T>
sparse_rows add_parts(const sparse_rows& of) {
  const auto parts = order_by_row(of.indices().data<std::int64_t>());
  pooled<std::size_t> first; // of each row in `parts`
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (i == 0 || parts[i].row != parts[i - 1].row)
      first.push_back(i);
  const auto count = first.size();
  first.push_back(parts.size());
  tensor indices{{static_cast<std::int64_t>(count)}, dtype::int64};
  tensor rows{dims_of_rows(of.dims(), count), of.type()};
  auto numbers = indices.mutable_data<std::int64_t>();
  auto* const to = rows.mutable_data<T>().data();
  const auto* const from = of.rows().data<T>().data();
  const auto size = of.row_size();
  const auto add = [&](std::size_t begin, std::size_t end) {
    for (auto r = begin; r < end; ++r) {
      numbers[r] = parts[first[r]].row;
      std::copy_n(from + parts[first[r]].at * size, size, to + r * size);
      for (auto i = first[r] + 1; i < first[r + 1]; ++i)
        add_rows(to + r * size, from + parts[i].at * size, size);
    }
  };
  for_ranges(count, parts.size() * size, add);
  return {of.dims(), std::move(indices), std::move(rows)};
}

/// Adds two sorted tensors.
template <class T>
sparse_rows merge(const sparse_rows& a, const sparse_rows& b) {
  const auto left = a.indices().data<std::int64_t>(),
             right = b.indices().data<std::int64_t>();
  pooled<std::int64_t> all(left.size() + right.size());
  all.erase(std::ranges::set_union(left, right, all.begin()).out, all.end());
  tensor rows{dims_of_rows(a.dims(), all.size()), a.type()};
  auto* const to = rows.mutable_data<T>().data();
  const auto size = a.row_size();
  const auto* const from_left = a.rows().data<T>().data();
  const auto* const from_right = b.rows().data<T>().data();
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin == end)
      return;
    auto l = std::ranges::lower_bound(left, all[begin]) - left.begin();
    auto r = std::ranges::lower_bound(right, all[begin]) - right.begin();
    for (auto i = begin; i < end; ++i) {
      const bool has_left =
        std::size_t(l) < left.size() && left[std::size_t(l)] == all[i];
      const bool has_right =
        std::size_t(r) < right.size() && right[std::size_t(r)] == all[i];
      auto* const row = to + i * size;
      if (has_left)
        std::copy_n(from_left + std::size_t(l++) * size, size, row);
      if (!has_right)
        continue;
      const auto* const other = from_right + std::size_t(r++) * size;
      if (has_left)
        add_rows(row, other, size);
      else
        std::copy_n(other, size, row);
    }
  };
  for_ranges(all.size(), all.size() * size, add);
  const shape count{static_cast<std::int64_t>(all.size())};
  return {a.dims(), tensor::of<std::int64_t>(count, all), std::move(rows)};
}

/// Sum by the definition of the canonical tree.
template <class T>
sparse_rows sum_of(std::span<const sparse_rows> list) {
  if (list.size() == 1)
    return list.front();
  const auto half = std::bit_floor(list.size() - 1);
  return merge<T>(sum_of<T>(list.first(half)), sum_of<T>(list.subspan(half)));
}

/// Calls `fn` with a value of the type in which sums are computed.
template <class F>
auto with_sum_type(dtype type, const F& fn) {
  return type == dtype::float64 ? fn(double{}) : fn(float{});
}

} // namespace

sparse_rows::sparse_rows(const shape& dims, tensor indices, tensor rows)
  : dims_{dims}, indices_{std::move(indices)}, rows_{std::move(rows)} {
  if (dims.rank() == 0 || indices_.type() != dtype::int64
      || indices_.dims().rank() != 1 || !is_float(rows_.type())
      || rows_.dims() != dims_of_rows(dims, indices_.size()))
    throw std::logic_error("rows of a tensor " + to_string(dims)
                           + " with the indices " + to_string(indices_.spec())
                           + " and the elements " + to_string(rows_.spec()));
  if (count() == 0)
    indices_ = indices_.to({});
  if (!is_on_host(indices_)) {
    if (indices_.device() != rows_.device())
      throw std::logic_error("rows on " + to_string(rows_.device())
                             + " with indices on "
                             + to_string(indices_.device()));
    sorted_ = false; // the host cannot read the indices
    return;
  }
  std::int64_t last = -1;
  for (const auto x : indices_.data<std::int64_t>()) {
    if (x < 0 || x >= dims.front())
      throw std::out_of_range("a tensor " + to_string(dims) + " has no row "
                              + std::to_string(x));
    sorted_ = sorted_ && x > last;
    last = x;
  }
}

sparse_rows sparse_rows::zeros(const tensor_spec& spec) {
  return {spec.dims, tensor{{0}, dtype::int64},
          tensor{dims_of_rows(spec.dims, 0), spec.type}};
}

sparse_rows sparse_rows::sorted() const {
  if (is_sorted())
    return *this;
  if (!is_on_host(rows_))
    return backend_of(rows_.device()).sum_rows(*this);
  const flush_denormals flushing;
  const auto sum = type() == dtype::bfloat16 ? dtype::float32 : type();
  return with_sum_type(sum, [&]<class T>(T) { return add_parts<T>(as(sum)); })
    .as(type());
}

sparse_rows sparse_rows::as(dtype type) const {
  auto out = *this;
  out.rows_ = rows_.as(type);
  return out;
}

tensor sparse_rows::dense() const {
  auto out = tensor::zeros(dims_, type(), rows_.device());
  add_to(out);
  return out;
}

void sparse_rows::add_to(tensor& sum) const {
  if (sum.dims() != dims_ || sum.type() != type())
    throw std::logic_error("rows of " + to_string(tensor_spec{dims_, type()})
                           + " cannot be added to " + to_string(sum.spec()));
  if (sum.device() != rows_.device())
    throw std::logic_error("rows on " + to_string(rows_.device())
                           + " cannot be added to a tensor on "
                           + to_string(sum.device()));
  if (!is_on_host(sum)) {
    for (const auto* x : {&indices_, &rows_, &std::as_const(sum)})
      captured_operands::keep(*x);
    return backend_of(sum.device()).add_rows(*this, sum);
  }
  if (type() == dtype::bfloat16) {
    auto wide = sum.as(dtype::float32);
    as(dtype::float32).add_to(wide);
    return sum.copy_from(wide.as(dtype::bfloat16));
  }
  const flush_denormals flushing;
  const auto numbers = indices_.data<std::int64_t>();
  const auto size = row_size();
  with_sum_type(type(), [&]<class T>(T) {
    auto* const to = sum.mutable_data<T>().data();
    const auto* const from = rows_.data<T>().data();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      add_rows(to + std::size_t(numbers[i]) * size, from + i * size, size);
  });
}

sparse_rows concat(std::span<const sparse_rows> list) {
  check_list(list);
  if (list.size() == 1)
    return list.front();
  std::size_t count = 0;
  for (const auto& x : list)
    count += x.count();
  const auto& first = list.front();
  tensor indices{{{static_cast<std::int64_t>(count)}, dtype::int64},
                 first.indices().device()};
  tensor rows{{dims_of_rows(first.dims(), count), first.type()},
              first.rows().device()};
  std::int64_t at = 0;
  for (const auto& x : list) {
    const auto end = at + static_cast<std::int64_t>(x.count());
    indices.slice(at, end).copy_from(x.indices());
    rows.slice(at, end).copy_from(x.rows());
    at = end;
  }
  return {first.dims(), std::move(indices), std::move(rows)};
}

sparse_rows sum_over_replicas(std::span<const sparse_rows> by_replica) {
  check_list(by_replica);
  if (!std::ranges::all_of(by_replica, &sparse_rows::is_sorted))
    throw std::logic_error("a sum over replicas of rows that are not sorted");
  const flush_denormals flushing;
  const auto type = by_replica.front().type();
  if (type == dtype::bfloat16) {
    pooled<sparse_rows> wide;
    for (const auto& x : by_replica)
      wide.push_back(x.as(dtype::float32));
    return sum_over_replicas(wide).as(type);
  }
  return with_sum_type(type, [&]<class T>(T) { return sum_of<T>(by_replica); });
}

} // namespace troupe
