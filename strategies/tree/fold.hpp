#pragma once

#include "troupe/tensors/base/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

// Computes sums in the order of the canonical tree (reduction.hpp). The caller
// provides the leaves of the tree.

namespace troupe::tree {

/// Returns the largest power of two below `n`. @pre `n >= 2`.
constexpr std::size_t split(std::size_t n) {
  return std::bit_floor(n - 1);
}

/// Number of elements that are added at a time: small enough that the sum of a
/// subtree stays in the first-level cache.
inline constexpr std::size_t block = 1024;

inline void add(float* out, const float* a, const float* b, std::size_t n) {
  kernels().add(out, a, b, n);
}

inline void add(double* out, const double* a, const double* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = a[i] + b[i];
}

/// Computes the sum over replicas [a, b) in tree order, for the elements
/// [offset, offset + n). @pre `n <= block`.
/// @param leaf `leaf(a, b)` returns a pointer to element 0 of the sum over [a,
///             b), or null: then `fold` splits the range. Never null for a
///             single replica.
/// @returns the first element of the sum: `out`, or memory of the leaf if [a,
///          b) is a leaf.
template <class T, class Leaf>
const T* fold(std::size_t a, std::size_t b, std::size_t offset, std::size_t n,
              T* out, const Leaf& leaf) {
  if (const T* x = leaf(a, b))
    return x + offset;
  const auto cut = a + split(b - a);
  const auto* left = fold(a, cut, offset, n, out, leaf);
  if (const T* right = leaf(cut, b)) {
    add(out, left, right + offset, n);
  } else {
    alignas(64) T sum[block];
    add(out, left, fold(cut, b, offset, n, sum, leaf), n);
  }
  return out;
}

/// Computes the sum over replicas [a, b) in tree order, for the elements
/// [begin, end), and stores it at `out` + begin.
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
