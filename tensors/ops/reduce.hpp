#pragma once

#include "troupe/tensors/op.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace troupe {

/// Axes of a reduction: a list such as `{0, -1}`, or a `std::vector<int>` or
/// another range that a program has computed. It holds a copy of the numbers
/// and allocates no memory. Negative axes count from the end. The function that
/// takes the axes says what an empty list means.
class axes {
public:
  axes() = default; ///< Empty.

  /// @errors throws std::logic_error for more axes than a tensor can have.
  axes(std::initializer_list<int> list)
    : axes{std::span{list.begin(), list.size()}} {}
  template <class Range>
  requires(
    !std::same_as<
      Range, axes> && std::convertible_to<const Range&, std::span<const int>>)
    axes(const Range& list) {
    assign(list);
  }

  std::size_t size() const { return size_; }
  const int* begin() const { return list_.data(); }
  const int* end() const { return list_.data() + size_; }

private:
  void assign(std::span<const int> list);

  std::array<int, shape::max_rank> list_{};
  std::size_t size_ = 0;
};

/// Sums along axes, in row-major order and in float64, so the bits depend on
/// the values only.
/// @shape x  any, float32 or float64
/// @param over Empty: all axes.
/// @param keep True: reduced axes remain, with extent 1.
/// @errors throws std::logic_error for an axis that is out of range or given
///         twice.
tensor reduce_sum(const tensor& x, const axes& over = {}, bool keep = false);

/// Computes the mean along axes: the sum divided by the number of reduced
/// elements; NaN for 0 elements.
/// @param over Empty: all axes.
/// @param keep True: reduced axes remain, with extent 1.
/// @errors throws std::logic_error for an axis that is out of range or given
///         twice.
tensor reduce_mean(const tensor& x, const axes& over = {}, bool keep = false);

namespace ops {

struct reduction {
  std::uint32_t over = 0; ///< Bit i set: axis i is reduced.
  bool keep = false;
};

/// Options: `reduction`.
extern const op reduce_sum, reduce_mean;

} // namespace ops

} // namespace troupe
