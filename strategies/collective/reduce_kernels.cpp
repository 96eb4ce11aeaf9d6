#include "troupe/strategies/collective/reduce_kernels.hpp"

#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::collective {

namespace {

/// Calls `run` with a zero of the element type.
template <class Run>
void with_element_type(dtype type, const Run& run) {
  const flush_denormals flushing;
  if (type == dtype::float32)
    run(float{});
  else
    run(double{});
}

/// Returns the leaves of the tree over some inputs: the input of each replica,
/// from byte `offset` on.
template <class T>
auto leaves_of(std::span<const tensor> inputs, std::size_t offset) {
  return [=](std::size_t a, std::size_t b) -> const T* {
    return b - a == 1 ? reinterpret_cast<const T*>(inputs[a].raw() + offset)
                      : nullptr;
  };
}

} // namespace

void sum_inputs(std::span<const tensor> inputs, const chunk_range& chunk,
                std::byte* out) {
  with_element_type(chunk.type, [&]<class T>(T) {
    tree::fold_all(0, inputs.size(), 0, chunk.bytes / sizeof(T),
                   reinterpret_cast<T*>(out),
                   leaves_of<T>(inputs, chunk.offset));
  });
}

void add_inputs(const std::byte* received, std::span<const tensor> inputs,
                const chunk_range& chunk, std::byte* out) {
  with_element_type(chunk.type, [&]<class T>(T) {
    const auto leaf = leaves_of<T>(inputs, chunk.offset);
    const auto* left = reinterpret_cast<const T*>(received);
    auto* sum = reinterpret_cast<T*>(out);
    const auto elements = chunk.bytes / sizeof(T);
    alignas(64) T partial[tree::block];
    for (std::size_t at = 0; at < elements; at += tree::block) {
      const auto n = std::min(tree::block, elements - at);
      const auto* own = tree::fold(0, inputs.size(), at, n, partial, leaf);
      tree::add(sum + at, left + at, own, n);
    }
  });
}

void sum_subtrees(const subtree_sums& subtrees, const chunk_range& chunk,
                  bool in_place, std::byte* out) {
  with_element_type(chunk.type, [&]<class T>(T) {
    const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
      return b == subtrees.ends[a]
               ? reinterpret_cast<const T*>(subtrees.sums[a])
               : nullptr;
    };
    const auto replicas = subtrees.ends.size();
    const auto elements = chunk.bytes / sizeof(T);
    auto* sum = reinterpret_cast<T*>(out);
    // `fold_all` may write partial sums to `sum`, so `sum` must not hold a
    // subtree's sum. With two replicas there are no partial sums: `fold_all`
    // reads each element of `sum` before it writes the sum to that element.
    if (!in_place || replicas == 2)
      return tree::fold_all(0, replicas, 0, elements, sum, leaf);
    alignas(64) T partial[tree::block];
    for (std::size_t at = 0; at < elements; at += tree::block) {
      const auto n = std::min(tree::block, elements - at);
      const auto* block_sum = tree::fold(0, replicas, at, n, partial, leaf);
      if (block_sum != sum + at)
        std::memcpy(sum + at, block_sum, n * sizeof(T));
    }
  });
}

} // namespace troupe::collective
