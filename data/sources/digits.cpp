#include "troupe/data/sources/digits.hpp"

#include "troupe/data/sources/glyphs.hpp"
#include "troupe/tensors/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>

// This file uses only additions, multiplications, divisions and square roots.
// IEEE 754 defines the results of these operations to the last bit, so an image
// has the same bits on all machines.

namespace troupe::data {

namespace {

constexpr int side = 28;
using image = std::array<float, side * side>;

/// Returns an approximately normal number with standard deviation 1, from the
/// sum of four uniform bytes.
float approximate_normal(random_stream& random) {
  const auto bits = random.next();
  const auto sum =
    (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
  return (float(sum) - 510.0f) / 147.80f;
}

/// Maps the coordinates of a glyph to pixels. The constructor draws a random
/// position, rotation, size, slant and distortion for one digit.
class hand {
public:
  explicit hand(random_stream& random)
    : scale_x_{20 * random.uniform(.68f, 1.12f)},
      scale_y_{20 * random.uniform(.72f, 1.08f)},
      shear_{random.uniform(-.32f, .32f)},
      bend_x_{random.uniform(-.28f, .28f)},
      bend_y_{random.uniform(-.28f, .28f)} {
    // `half` is the tangent of half the rotation angle.
    const auto half = random.uniform(-.13f, .13f);
    cos_ = (1 - half * half) / (1 + half * half);
    sin_ = 2 * half / (1 + half * half);
    centre_ = {side / 2.f - .5f + random.uniform(-3, 3),
               side / 2.f - .5f + random.uniform(-3, 3)};
  }

  point operator()(point p) const {
    const auto x = p.x + bend_x_ * (p.y * p.y - .12f) - shear_ * p.y;
    const auto y = p.y + bend_y_ * (p.x * p.x - .04f);
    return {centre_.x + scale_x_ * (cos_ * x - sin_ * y),
            centre_.y + scale_y_ * (sin_ * x + cos_ * y)};
  }

private:
  float scale_x_, scale_y_, shear_, bend_x_, bend_y_;
  float cos_, sin_;
  point centre_;
};

/// Draws a line from `a` to `b` with the given radius. Its edges are blurred by
/// half a pixel on either side.
void draw(point a, point b, float radius, image& canvas) {
  const auto reach = radius + .5f;
  const auto first = [&](float x, float y) {
    return std::clamp(int(std::min(x, y) - reach + 1), 0, side);
  };
  const auto last = [&](float x, float y) {
    return std::clamp(int(std::max(x, y) + reach + 1), 0, side);
  };
  const auto dx = b.x - a.x, dy = b.y - a.y;
  const auto squared = std::max(dx * dx + dy * dy, 1e-6f);
  for (int row = first(a.y, b.y); row < last(a.y, b.y); ++row)
    for (int column = first(a.x, b.x); column < last(a.x, b.x); ++column) {
      const auto x = float(column) - a.x, y = float(row) - a.y;
      const auto along = std::clamp((x * dx + y * dy) / squared, 0.f, 1.f);
      const auto off_x = x - along * dx, off_y = y - along * dy;
      const auto ink =
        std::min(reach - std::sqrt(off_x * off_x + off_y * off_y), 1.f);
      auto& to = canvas[std::size_t(row * side + column)];
      to = std::max(to, ink);
    }
}

/// Draws a smooth curve through the points.
/// @source Catmull & Rom, 1974.
void draw_smooth(std::span<const point> through, float radius, image& canvas) {
  constexpr int pieces = 5;
  const auto n = through.size();
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const auto p = through[i > 0 ? i - 1 : 0], q = through[i],
               r = through[i + 1], s = through[std::min(i + 2, n - 1)];
    const auto interpolate = [](float a, float b, float c, float d, float t) {
      return b
             + t / 2
                 * (c - a
                    + t
                        * (2 * a - 5 * b + 4 * c - d
                           + t * (3 * (b - c) + d - a)));
    };
    auto before = q;
    for (int k = 1; k <= pieces; ++k) {
      const auto t = float(k) / pieces;
      const point now{interpolate(p.x, q.x, r.x, s.x, t),
                      interpolate(p.y, q.y, r.y, s.y, t)};
      draw(before, now, radius, canvas);
      before = now;
    }
  }
}

void draw_stroke(const stroke& drawn, const hand& transform, float radius,
                 random_stream& random, image& canvas) {
  constexpr float tremor = .033f;
  std::vector<point> piece;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (i > 0 && drawn[i] == drawn[i - 1]) { // A repeated point is a corner.
      draw_smooth(piece, radius, canvas);
      piece = {piece.back()};
      continue;
    }
    const auto x = drawn[i].x + tremor * approximate_normal(random);
    const auto y = drawn[i].y + tremor * approximate_normal(random);
    piece.push_back(transform({x, y}));
  }
  draw_smooth(piece, radius, canvas);
}

void draw_digit(int digit, random_stream& random,
                std::span<std::uint8_t> pixels) {
  const auto& ways = glyphs(digit);
  const auto& way = ways[random.below(std::uint32_t(ways.size()))];
  const hand transform{random};
  const auto radius = random.uniform(.7f, 1.9f);
  const auto ink = random.uniform(.7f, 1.f);
  const auto noise = random.uniform(0.f, .12f);
  image canvas{};
  for (const auto& each : way)
    draw_stroke(each, transform, radius, random, canvas);
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    const auto x = std::clamp(
      ink * canvas[i] + noise * approximate_normal(random), 0.f, 1.f);
    pixels[i] = static_cast<std::uint8_t>(255 * x + .5f);
  }
}

} // namespace

dataset digits(const digits_options& options) {
  const auto n = options.examples;
  if (n == 0 || n > 1u << 24)
    throw std::invalid_argument(std::to_string(n)
                                + " generated digits: give a number from 1 to "
                                  "16777216");
  tensor images{{std::int64_t(n), side, side, 1}, dtype::uint8};
  tensor labels{{std::int64_t(n)}, dtype::int32};
  const auto pixels = images.mutable_data<std::uint8_t>();
  for (std::uint64_t i = 0; i < n; ++i) {
    random_stream random{{.seed = options.seed, .step = i, .op = draws_data}};
    const auto digit = int(random.below(10));
    labels.mutable_data<std::int32_t>()[i] = digit;
    draw_digit(digit, random, pixels.subspan(i * side * side, side * side));
  }
  return dataset::of_pixels(images, labels, 10);
}

} // namespace troupe::data
