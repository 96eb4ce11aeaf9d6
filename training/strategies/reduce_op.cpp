#include "troupe/training/strategies/reduce_op.hpp"

#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace troupe {

namespace {

std::size_t axis_of(int axis, const tensor& x) {
  const auto rank = static_cast<int>(x.dims().rank());
  const auto at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    throw std::logic_error("axis " + std::to_string(axis) + " of a value "
                           + to_string(x.spec()));
  return static_cast<std::size_t>(at);
}

/// Integers wrap around on overflow.
template <class T>
T added(T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    using bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<bits>(a) + static_cast<bits>(b));
  } else {
    return static_cast<T>(a + b);
  }
}

template <class T>
void add_to(std::span<T> x, std::span<const T> y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = added(x[i], y[i]);
}

void check_numbers(const tensor& x) {
  if (x.type() == dtype::uint8 || x.type() == dtype::boolean)
    throw std::logic_error("values " + to_string(x.spec())
                           + " cannot be summed over replicas; convert them "
                             "with as(dtype::int32)");
}

tensor tree(std::span<const tensor> parts) {
  if (parts.size() == 1)
    return parts[0].clone();
  const auto left = std::bit_floor(parts.size() - 1);
  auto out = tree(parts.first(left));
  const auto right = tree(parts.subspan(left));
  with_dtype(out.type(), [&](auto zero) {
    using type = decltype(zero);
    add_to(out.mutable_data<type>(), right.data<type>());
  });
  return out;
}

/// Sums over some axes. The result has the dtype of the value; integers are
/// allowed.
tensor sum_over(const tensor& x, const std::vector<std::size_t>& over) {
  shape kept = x.dims();
  std::vector<std::int64_t> extents;
  for (std::size_t a = 0; a < x.dims().rank(); ++a)
    if (std::ranges::find(over, a) == over.end())
      extents.push_back(x.dims()[a]);
    else
      kept = kept.with(a, 1);
  auto wide = tensor::zeros(kept, x.type() == dtype::int32     ? dtype::int64
                                  : x.type() == dtype::float32 ? dtype::float64
                                                               : x.type());
  with_dtype(x.type(), [&](auto zero) {
    using type = decltype(zero);
    const auto in = x.data<type>();
    with_dtype(wide.type(), [&](auto wide_zero) {
      using wide_type = decltype(wide_zero);
      const auto out = wide.mutable_data<wide_type>();
      for (std::size_t i = 0; i < in.size(); ++i) {
        std::size_t to = 0, rest = i, stride = 1;
        for (auto a = kept.rank(); a-- > 0;) {
          const auto extent = static_cast<std::size_t>(x.dims()[a]);
          to += kept[a] == 1 ? 0 : rest % extent * stride;
          rest /= extent;
          stride *= static_cast<std::size_t>(kept[a]);
        }
        out[to] = added(out[to], static_cast<wide_type>(in[i]));
      }
    });
  });
  return wide.as(x.type()).reshaped(shape{extents});
}

void check_same(std::span<const tensor> parts) {
  if (parts.empty())
    throw std::logic_error("there is no value to reduce");
  for (const auto& x : parts)
    if (x.spec() != parts[0].spec())
      throw std::logic_error("replicas hold values of different shapes, "
                             + to_string(parts[0].spec()) + " and "
                             + to_string(x.spec())
                             + "; name the axis along which they differ");
}

} // namespace

void check_unrecorded(const tensor& x) {
  if (is_recorded(x))
    throw std::logic_error("gradients do not flow through a collective, "
                           "but a tape records the value "
                           + to_string(x.spec())
                           + "; pass its detach(), or reduce the gradients");
}

void check_reducible(reduce_op op, const tensor& x) {
  check_unrecorded(x);
  check_numbers(x);
  if (op == mean && x.type() != dtype::float32 && x.type() != dtype::float64)
    throw std::logic_error("integers have no mean: " + to_string(x.spec())
                           + "; convert them with as(dtype::float32)");
}

tensor divided(const tensor& x, double by) {
  auto out = x.clone();
  with_dtype(x.type(), [&](auto zero) {
    using type = decltype(zero);
    for (auto& v : out.mutable_data<type>())
      v = static_cast<type>(v / by);
  });
  return out;
}

tensor reduce(reduce_op op, std::span<const tensor> parts) {
  check_same(parts);
  for (const auto& x : parts)
    check_reducible(op, x);
  auto total = tree(parts);
  return op == mean ? divided(total, static_cast<double>(parts.size())) : total;
}

sum_along::sum_along(reduce_op op, const tensor& x, std::span<const int> over) {
  check_reducible(op, x);
  std::vector<std::size_t> at;
  for (const auto axis : over) {
    at.push_back(axis_of(axis, x));
    if (std::count(at.begin(), at.end(), at.back()) > 1)
      throw std::logic_error("axis " + std::to_string(axis)
                             + " is named twice");
    elements *= static_cast<double>(x.dims()[at.back()]);
  }
  sum = sum_over(x, at);
}

tensor reduce(reduce_op op, std::span<const tensor> parts, axes over) {
  if (over.size() == 0)
    return reduce(op, parts);
  std::vector<tensor> sums;
  double reduced = 0;
  for (const auto& x : parts) {
    const sum_along one{op, x, {over.begin(), over.size()}};
    reduced += one.elements;
    sums.push_back(one.sum);
  }
  check_same(sums);
  auto total = tree(sums);
  return op == mean ? divided(total, reduced) : total;
}

tensor concatenate(std::span<const tensor> parts, int axis) {
  if (parts.empty())
    throw std::logic_error("there is no value to gather");
  const auto at = axis_of(axis, parts[0]);
  std::int64_t extent = 0;
  for (const auto& x : parts) {
    check_unrecorded(x);
    if (x.type() != parts[0].type() || x.dims().rank() != parts[0].dims().rank()
        || x.dims().with(at, 0) != parts[0].dims().with(at, 0))
      throw std::logic_error(
        "values " + to_string(parts[0].spec()) + " and " + to_string(x.spec())
        + " cannot be gathered along axis " + std::to_string(axis));
    extent += x.dims()[at];
  }
  tensor out{parts[0].dims().with(at, extent), parts[0].type()};
  const auto& dims = parts[0].dims();
  const auto rows = dims.axes(0, at).elements();
  const auto inner =
    dims.axes(at + 1, dims.rank()).elements() * size_of(out.type());
  auto* to = out.raw();
  for (std::size_t row = 0; row < rows; ++row)
    for (const auto& x : parts) {
      const auto bytes = static_cast<std::size_t>(x.dims()[at]) * inner;
      if (bytes > 0)
        std::memcpy(to, x.raw() + row * bytes, bytes);
      to += bytes;
    }
  return out;
}

} // namespace troupe
