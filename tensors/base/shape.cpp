#include "troupe/tensors/base/shape.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

shape::shape(std::initializer_list<std::int64_t> extents)
  : shape{std::span{extents.begin(), extents.size()}} {}

shape::shape(std::span<const std::int64_t> extents) : rank_{extents.size()} {
  if (rank_ > max_rank)
    throw std::logic_error("a shape of " + std::to_string(rank_)
                           + " axes; at most 8 are possible");
  std::ranges::copy(extents, extents_.begin());
  std::int64_t product = 1;
  for (const auto extent : extents)
    if (extent < 0
        || (extent > 0 && __builtin_mul_overflow(product, extent, &product))
        || product > (std::int64_t{1} << 62))
      throw std::logic_error("the shape " + to_string(*this)
                             + " is not possible");
}

std::size_t shape::elements() const {
  std::size_t product = 1;
  for (const auto extent : *this)
    product *= static_cast<std::size_t>(extent);
  return product;
}

shape shape::with_extent(std::size_t axis, std::int64_t extent) const {
  if (axis >= rank_)
    throw std::logic_error("axis " + std::to_string(axis) + " of "
                           + to_string(*this));
  auto extents = extents_;
  extents[axis] = extent;
  return shape{std::span{extents.data(), rank_}};
}

shape shape::axes(std::size_t first, std::size_t last) const {
  return shape{std::span{begin() + first, last - first}};
}

bool operator==(const shape& a, const shape& b) {
  return std::ranges::equal(a, b);
}

std::string to_string(const shape& x) {
  std::string text = "[";
  for (const auto extent : x)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

shape broadcast(const shape& a, const shape& b) {
  const auto rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, shape::max_rank> out{};
  for (std::size_t i = 0; i < rank; ++i) {
    const auto at = [&](const shape& s) {
      return i < s.rank() ? s[s.rank() - 1 - i] : 1;
    };
    const auto x = at(a), y = at(b);
    if (x != y && x != 1 && y != 1)
      throw std::logic_error("the shapes " + to_string(a) + " and "
                             + to_string(b) + " do not broadcast");
    out[rank - 1 - i] = x == 1 ? y : x;
  }
  return shape{std::span{out.data(), rank}};
}

} // namespace troupe
