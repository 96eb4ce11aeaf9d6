#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace troupe::cuda {

/// Blocks of one class have the same size.
struct size_class {
  std::size_t index, bytes;
};

/// Returns the smallest class that holds `bytes`: 512 and more, in eight steps
/// from each power of two to the next.
inline size_class class_of(std::size_t bytes) {
  const auto size = std::max<std::size_t>(bytes, 512);
  const auto octave = static_cast<std::size_t>(std::bit_width(size - 1)) - 1;
  const auto step = std::size_t{1} << (octave - 3);
  const auto rounded = (size + step - 1) / step * step;
  // In (2^octave, 2^(octave + 1)].
  return {(octave - 8) * 8 + (rounded - (std::size_t{1} << octave)) / step - 1,
          rounded};
}

} // namespace troupe::cuda
