#pragma once

#include "troupe/tensors/base/dtype.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::models {

/// The dtype in which the layers of a model compute. The parameters, their
/// gradients, the state of the update rule, the loss and the metrics are always
/// float32.
enum class precision : std::uint8_t {
  float32,
  /// Layers get their inputs and copies of their parameters in bfloat16, and
  /// give bfloat16. bfloat16 has the range of float32, so losses need no
  /// scaling.
  bf16,
  /// float32, but products and convolutions may round their inputs to TF32 on a
  /// device that has it (`context::allows_tf32`).
  tf32,
};

inline constexpr std::array<std::string_view, 3> precision_names{
  "float32", "bf16", "tf32"};

constexpr std::string_view to_string(precision x) {
  return precision_names[static_cast<std::size_t>(x)];
}

/// Returns the precision with this name. Nullopt: there is none.
constexpr std::optional<precision> find_precision(std::string_view name) {
  for (std::size_t i = 0; i < precision_names.size(); ++i)
    if (precision_names[i] == name)
      return static_cast<precision>(i);
  return std::nullopt;
}

/// Returns the dtype of what the layers compute.
constexpr dtype type_of(precision x) {
  return x == precision::bf16 ? dtype::bfloat16 : dtype::float32;
}

} // namespace troupe::models
