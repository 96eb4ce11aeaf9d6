#pragma once

#include "troupe/tensors/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

// How the canonical tree is added up, whatever its leaves are.

namespace troupe::tree {

/// The largest power of two below `n`. @pre `n >= 2`.
constexpr std::size_t split(std::size_t n) {
  return std::bit_floor(n - 1);
}

/// Elements; small enough that a subtree's sum stays in the first cache.
inline constexpr std::size_t block = 1024;

inline void add(float* out, const float* a, const float* b, std::size_t n) {
  kernels().add(out, a, b, n);
}

inline void add(double* out, const double* a, const double* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = a[i] + b[i];
}

/// tree[a, b) of elements [at, at + n), n <= block.
/// @param leaf (a, b) -> where the elements of that sum lie, or null if it is
///             to be split; never null for one replica.
/// @returns where the sum stands: in `out`, or in the leaf if it is one.
template <class T, class Leaf>
const T* fold(std::size_t a, std::size_t b, std::size_t at, std::size_t n,
              T* out, const Leaf& leaf) {
  if (const T* x = leaf(a, b))
    return x + at;
  const auto cut = a + split(b - a);
  const auto* left = fold(a, cut, at, n, out, leaf);
  if (const T* right = leaf(cut, b)) {
    add(out, left, right + at, n);
  } else {
    alignas(64) T sum[block];
    add(out, left, fold(cut, b, at, n, sum, leaf), n);
  }
  return out;
}

/// tree[a, b) of elements [begin, end), to `out` + begin.
template <class T, class Leaf>
void fold_all(std::size_t a, std::size_t b, std::size_t begin, std::size_t end,
              T* out, const Leaf& leaf) {
  if (const T* x = leaf(a, b)) {
    std::memcpy(out + begin, x + begin, (end - begin) * sizeof(T));
    return;
  }
  const auto cut = a + split(b - a);
  const T *left = leaf(a, cut), *right = leaf(cut, b);
  if (left && right)
    return add(out + begin, left + begin, right + begin, end - begin);
  for (auto at = begin; at < end; at += block)
    fold(a, b, at, std::min(block, end - at), out + at, leaf);
}

} // namespace troupe::tree
