#pragma once

#include "troupe/tensors/cuda/size_class.hpp"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace troupe::cuda {

/// Blocks of memory that belong to graphs. A block that no tensor uses can be
/// used again by the capture of its graph, and by nothing else: each launch
/// writes to it. Not thread-safe.
class graph_blocks {
public:
  /// Adds a block, which a tensor uses.
  void add(std::uint64_t graph, std::byte* block, const size_class& size) {
    blocks_[block] = {graph, size, true};
  }

  /// Returns a block of a graph that no tensor has used, for a tensor. Null:
  /// there is none of this size.
  std::byte* take(std::uint64_t graph, const size_class& size) {
    for (auto& [block, x] : blocks_)
      if (x.graph == graph && x.size.index == size.index && !x.is_used) {
        x.is_used = true;
        return block;
      }
    return nullptr;
  }

  /// Notes that no tensor uses a block.
  /// @returns false if the block belongs to no graph.
  bool release(std::byte* block) noexcept {
    const auto at = blocks_.find(block);
    if (at == blocks_.end())
      return false;
    at->second.is_used = false;
    return true;
  }

  /// Removes a graph. What tensors use belongs to no graph then.
  /// @param fn called with each block that no tensor uses, and its size.
  template <class F>
  void remove(std::uint64_t graph, F&& fn) {
    std::erase_if(blocks_, [&](const auto& one) {
      const auto& [block, x] = one;
      if (x.graph != graph)
        return false;
      if (!x.is_used)
        fn(block, x.size);
      return true;
    });
  }

private:
  struct owned_block {
    std::uint64_t graph = 0;
    size_class size{};
    bool is_used = false; ///< By a tensor.
  };

  std::unordered_map<std::byte*, owned_block> blocks_;
};

} // namespace troupe::cuda
