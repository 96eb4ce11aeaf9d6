#pragma once

#include "troupe/tensors/base/bfloat16.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

/// Type of a tensor's elements. The values are part of the file format.
enum class dtype : std::uint8_t {
  float32 = 0,
  float64 = 1,
  int32 = 2,
  int64 = 3,
  uint8 = 4,
  boolean = 5,
  bfloat16 = 6,
};
inline constexpr std::size_t dtype_count = 7;

/// Size of one element in bytes.
constexpr std::size_t size_of(dtype x) {
  constexpr std::size_t sizes[dtype_count] = {4, 8, 4, 8, 1, 1, 2};
  return sizes[static_cast<std::size_t>(x)];
}

constexpr std::string_view to_string(dtype x) {
  constexpr std::string_view names[dtype_count] = {
    "float32", "float64", "int32", "int64", "uint8", "bool", "bfloat16"};
  return names[static_cast<std::size_t>(x)];
}

/// True for dtypes that have gradients.
constexpr bool is_float(dtype x) {
  return x == dtype::float32 || x == dtype::float64 || x == dtype::bfloat16;
}

template <class T>
struct dtype_of_type;
template <>
struct dtype_of_type<float> {
  static constexpr dtype value = dtype::float32;
};
template <>
struct dtype_of_type<double> {
  static constexpr dtype value = dtype::float64;
};
template <>
struct dtype_of_type<std::int32_t> {
  static constexpr dtype value = dtype::int32;
};
template <>
struct dtype_of_type<std::int64_t> {
  static constexpr dtype value = dtype::int64;
};
template <>
struct dtype_of_type<std::uint8_t> {
  static constexpr dtype value = dtype::uint8;
};
template <>
struct dtype_of_type<bool> {
  static constexpr dtype value = dtype::boolean;
};
template <>
struct dtype_of_type<bfloat16> {
  static constexpr dtype value = dtype::bfloat16;
};

template <class T>
inline constexpr dtype dtype_of = dtype_of_type<T>::value;

} // namespace troupe
