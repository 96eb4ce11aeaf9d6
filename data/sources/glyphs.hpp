#pragma once

#include <vector>

namespace troupe::data {

/// Point of a glyph, in units of the digit's height, relative to the digit's
/// center; y points down.
struct point {
  float x, y;

  friend bool operator==(const point&, const point&) = default;
};

/// A smooth line through points. A repeated point is a corner.
using stroke = std::vector<point>;

/// The strokes of one shape of a digit.
using glyph = std::vector<stroke>;

/// Returns all shapes of a digit.
/// @pre `0 <= digit && digit < 10`.
const std::vector<glyph>& glyphs(int digit);

} // namespace troupe::data
