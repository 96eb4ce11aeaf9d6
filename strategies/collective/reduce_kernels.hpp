#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

// Additions of a chunk in the order of the canonical tree (tree/reduction.hpp).
// Sums are of float32 or float64. Denormal numbers are flushed to zero.

namespace troupe::collective {

/// Elements of a bucket: `bytes` from byte `offset` on.
struct chunk_range {
  dtype type = dtype::float32;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Sets `out` to the sum of a chunk over some inputs, in tree order.
/// @pre there is an input, and `out` overlaps no input.
void sum_inputs(std::span<const tensor> inputs, const chunk_range& chunk,
                std::byte* out);

/// Sets `out` to `received` plus the sum of a chunk over some inputs, which are
/// added in tree order first. `received` may be `out`.
void add_inputs(const std::byte* received, std::span<const tensor> inputs,
                const chunk_range& chunk, std::byte* out);

/// Subtrees that partition the canonical tree, with the sum of a chunk over
/// each of them. Both spans have one element per replica, but only those of the
/// first replica of a subtree are used.
struct subtree_sums {
  std::span<const std::uint32_t> ends; ///< Last replica of the subtree, plus 1.
  std::span<const std::byte* const> sums;
};

/// Sets `out` to the sum of a chunk over all subtrees, in tree order.
/// @param chunk its `offset` has no effect.
/// @param in_place the memory of `out` holds the sum of one of the subtrees.
void sum_subtrees(const subtree_sums& subtrees, const chunk_range& chunk,
                  bool in_place, std::byte* out);

} // namespace troupe::collective
