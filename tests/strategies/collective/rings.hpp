#pragma once

#include "troupe/tests/strategies/collective/packet_queues.hpp"

namespace troupe::exchange::testing {

inline constexpr terms ringed{terms::ways::ring};

/// Sum in the order of the ring, computed element by element.
template <class T>
tensor ring_of(const tensors& parts, const firsts& first, std::uint32_t k) {
  const auto all = std::uint32_t(first.size() - 1);
  tensors own;
  for (std::uint32_t p = 0; p < all; ++p)
    own.push_back(tree_of(parts, first[p], first[p + 1]));
  tensor out{parts[0].spec()};
  const auto chunks = cut_of(out.size(), dtype_of<T>, all, terms::ways::ring);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto c = std::uint32_t(i / chunks.each);
    T sum = own[(k + c) % all].template data<T>()[i];
    for (std::uint32_t hop = 1; hop < all; ++hop)
      sum = sum + own[(k + c + hop) % all].template data<T>()[i];
    out.template mutable_data<T>()[i] = sum;
  }
  return out;
}

} // namespace troupe::exchange::testing
