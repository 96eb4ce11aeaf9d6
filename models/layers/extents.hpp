#pragma once

#include <array>
#include <cstdint>

namespace troupe::models {

/// Height and width of a window or of its steps. One number stands for both.
struct extents_2d : std::array<std::int64_t, 2> {
  constexpr extents_2d() : array{} {}
  constexpr extents_2d(std::int64_t both) : array{both, both} {}
  constexpr extents_2d(std::int64_t height, std::int64_t width)
    : array{height, width} {}
  constexpr extents_2d(const std::array<std::int64_t, 2>& both) : array{both} {}
};

} // namespace troupe::models
