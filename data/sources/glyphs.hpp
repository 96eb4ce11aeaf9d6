#pragma once

#include <vector>

namespace troupe::data {

/// In units of a digit's height, relative to its center; y points down.
struct point {
  float x, y;

  friend bool operator==(const point&, const point&) = default;
};

/// A smooth line through these points. A repeated point is a corner.
using stroke = std::vector<point>;

/// The strokes of one shape of a digit.
using glyph = std::vector<stroke>;

/// All shapes of a digit.
/// @pre `0 <= digit && digit < 10`.
const std::vector<glyph>& glyphs(int digit);

} // namespace troupe::data
