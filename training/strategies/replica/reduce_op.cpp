#include "troupe/training/strategies/replica/reduce_op.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace troupe {

namespace {

std::size_t axis_index(int axis, const tensor& value) {
  const auto rank = static_cast<int>(value.dims().rank());
  const auto index = axis < 0 ? axis + rank : axis;
  if (index < 0 || index >= rank)
    throw std::logic_error("axis " + std::to_string(axis) + " of a value "
                           + to_string(value.spec()));
  return static_cast<std::size_t>(index);
}

/// Returns a + b. Integers wrap around on overflow.
template <class T>
T add_wrapping(T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    using bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<bits>(a) + static_cast<bits>(b));
  } else {
    return static_cast<T>(a + b);
  }
}

template <class T>
void accumulate_into(std::span<T> x, std::span<const T> y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = add_wrapping(x[i], y[i]);
}

void check_numbers(const tensor& x) {
  if (x.type() == dtype::uint8 || x.type() == dtype::boolean)
    throw std::logic_error("values " + to_string(x.spec())
                           + " cannot be summed over replicas; convert them "
                             "with as(dtype::int32)");
}

/// Returns a copy on the CPU with elements of its own.
tensor host_clone(const tensor& x) {
  return x.device().kind == device_kind::cpu ? x.clone() : x.to({});
}

tensor sum_in_tree_order(std::span<const tensor> values) {
  if (values.size() == 1)
    return host_clone(values[0]);
  const auto left = std::bit_floor(values.size() - 1);
  auto out = sum_in_tree_order(values.first(left));
  const auto right = sum_in_tree_order(values.subspan(left));
  with_dtype(out.type(), [&](auto zero) {
    using type = decltype(zero);
    accumulate_into(out.mutable_data<type>(), right.data<type>());
  });
  return out;
}

/// Sums over some axes. Floats and int32 are added in 64 bits; the result has
/// the dtype of the value.
tensor sum_over(const tensor& value, const std::vector<std::size_t>& over) {
  shape kept_dims = value.dims();
  std::vector<std::int64_t> extents;
  for (std::size_t a = 0; a < value.dims().rank(); ++a)
    if (std::ranges::find(over, a) == over.end())
      extents.push_back(value.dims()[a]);
    else
      kept_dims = kept_dims.with_extent(a, 1);
  auto wide =
    tensor::zeros(kept_dims, value.type() == dtype::int32 ? dtype::int64
                             : is_float(value.type())     ? dtype::float64
                                                          : value.type());
  const auto read = value.to({});
  with_dtype(value.type(), [&](auto zero) {
    using type = decltype(zero);
    const auto source = read.data<type>();
    with_dtype(wide.type(), [&](auto wide_zero) {
      using wide_type = decltype(wide_zero);
      const auto out = wide.mutable_data<wide_type>();
      for (std::size_t i = 0; i < source.size(); ++i) {
        std::size_t target = 0, rest = i, stride = 1;
        for (auto a = kept_dims.rank(); a-- > 0;) {
          const auto extent = static_cast<std::size_t>(value.dims()[a]);
          target += kept_dims[a] == 1 ? 0 : rest % extent * stride;
          rest /= extent;
          stride *= static_cast<std::size_t>(kept_dims[a]);
        }
        out[target] =
          add_wrapping(out[target], static_cast<wide_type>(source[i]));
      }
    });
  });
  return wide.as(value.type()).reshaped(shape{extents});
}

/// Names the values of replica 0 and of another one.
std::string text_of_values(std::span<const tensor> values,
                           std::size_t replica) {
  return "replica " + std::to_string(replica) + " holds "
         + to_string(values[replica].spec()) + ", but replica 0 "
         + to_string(values[0].spec());
}

/// @param values by replica.
/// @param summed their sums over axes. Equal to `values`: there are no axes.
void check_equal_specs(std::span<const tensor> values,
                       std::span<const tensor> summed) {
  if (values.empty())
    throw std::logic_error("there is no value to reduce");
  for (std::size_t r = 0; r < values.size(); ++r)
    if (values[r].type() != values[0].type())
      throw std::logic_error(text_of_values(values, r)
                             + "; all replicas must hold the same dtype");
    else if (summed[r].spec() != summed[0].spec())
      throw std::logic_error(
        text_of_values(values, r)
        + "; name the axes along which they differ, if they have as many");
}

} // namespace

void check_unrecorded(const tensor& value) {
  if (is_recorded(value))
    throw std::logic_error("gradients do not flow through a collective, "
                           "but a tape records the value "
                           + to_string(value.spec())
                           + "; pass its detach(), or reduce the gradients");
}

void check_reducible(reduce_op op, const tensor& value) {
  check_unrecorded(value);
  check_numbers(value);
  if (op == mean && !is_float(value.type()))
    throw std::logic_error("integers have no mean: " + to_string(value.spec())
                           + "; convert them with as(dtype::float32)");
}

tensor divide_elements(const tensor& x, double divisor) {
  const flush_denormals flushing;
  const bool has_kernel =
    x.type() == dtype::float32 || x.type() == dtype::float64;
  if (x.device().kind != device_kind::cpu && has_kernel) {
    const pause_recording meanwhile;
    return x / divisor; // rounds once too
  }
  auto out = host_clone(x);
  with_dtype(x.type(), [&](auto zero) {
    using type = decltype(zero);
    for (auto& v : out.mutable_data<type>())
      v = static_cast<type>(v / divisor);
  });
  return out;
}

tensor reduce(reduce_op op, std::span<const tensor> values) {
  check_equal_specs(values, values);
  for (const auto& x : values)
    check_reducible(op, x);
  const flush_denormals flushing;
  auto total = sum_in_tree_order(values);
  return op == mean ? divide_elements(total, static_cast<double>(values.size()))
                    : total;
}

partial_sum::partial_sum(reduce_op op, const tensor& value, const axes& over) {
  check_reducible(op, value);
  const flush_denormals flushing;
  std::vector<std::size_t> indices;
  for (const auto axis : over) {
    indices.push_back(axis_index(axis, value));
    if (std::count(indices.begin(), indices.end(), indices.back()) > 1)
      throw std::logic_error("axis " + std::to_string(axis)
                             + " is named twice");
    elements *= static_cast<double>(value.dims()[indices.back()]);
  }
  sum = sum_over(value, indices);
}

tensor reduce(reduce_op op, std::span<const tensor> values, const axes& over) {
  if (over.size() == 0)
    return reduce(op, values);
  const flush_denormals flushing;
  std::vector<tensor> sums;
  double reduced = 0;
  for (const auto& x : values) {
    const partial_sum one{op, x, over};
    reduced += one.elements;
    sums.push_back(one.sum);
  }
  check_equal_specs(values, sums);
  auto total = sum_in_tree_order(sums);
  return op == mean ? divide_elements(total, reduced) : total;
}

tensor concatenate(std::span<const tensor> values, int axis) {
  if (values.empty())
    throw std::logic_error("there is no value to gather");
  const auto index = axis_index(axis, values[0]);
  std::int64_t extent = 0;
  for (std::size_t r = 0; r < values.size(); ++r) {
    const auto& value = values[r];
    check_unrecorded(value);
    if (value.type() != values[0].type()
        || value.dims().rank() != values[0].dims().rank()
        || value.dims().with_extent(index, 0)
             != values[0].dims().with_extent(index, 0))
      throw std::logic_error(
        text_of_values(values, r) + "; values that are gathered along axis "
        + std::to_string(axis) + " may differ only in its extent");
    extent += value.dims()[index];
  }
  tensor out{values[0].dims().with_extent(index, extent), values[0].type()};
  const auto& dims = values[0].dims();
  const auto rows = dims.axes(0, index).elements();
  const auto inner =
    dims.axes(index + 1, dims.rank()).elements() * size_of(out.type());
  tensors read;
  for (const auto& value : values)
    read.push_back(value.to({}));
  auto* destination = out.raw();
  for (std::size_t row = 0; row < rows; ++row)
    for (const auto& value : read) {
      const auto bytes = static_cast<std::size_t>(value.dims()[index]) * inner;
      if (bytes > 0)
        std::memcpy(destination, value.raw() + row * bytes, bytes);
      destination += bytes;
    }
  return out;
}

} // namespace troupe
