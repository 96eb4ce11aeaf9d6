#pragma once

#include "troupe/strategies/tree_sum.hpp"
#include "troupe/tests/strategies/post_office.hpp"

namespace troupe::exchange::testing {

using firsts = std::vector<std::uint32_t>;

inline constexpr terms ringed{terms::ways::ring};

/// What tree_sum.hpp's machine makes of parts [begin, end).
inline tensor tree_of(const tensors& parts, std::uint32_t begin,
                      std::uint32_t end) {
  tree::tree_sum machine{{1, 0, 0, end - begin, 0, 1}};
  tree::reaction what;
  for (auto r = begin; r < end; ++r)
    what = machine.on({{1, 0, 0, r - begin, 0, 0, 1}}, parts[r]);
  while (std::holds_alternative<tree::adding>(what))
    what = machine.work(1 << 20);
  return std::get<tree::finished>(what).sum;
}

/// The order of the ring, one element after the other.
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

template <class T>
tensors parts_of(std::uint32_t replicas, std::size_t elements,
                 std::uint64_t seed) {
  tensors out;
  for (std::uint32_t r = 0; r < replicas; ++r)
    out.push_back(brought<T>(elements, seed * 1000 + r));
  return out;
}

inline std::string text_of(const firsts& x) {
  std::string out = "replicas from";
  for (const auto r : x)
    out += " " + std::to_string(r);
  return out;
}

} // namespace troupe::exchange::testing
