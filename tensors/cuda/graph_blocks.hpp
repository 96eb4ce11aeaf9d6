#pragma once

#include "troupe/tensors/cuda/size_class.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe::cuda {

/// Blocks of memory that belong to graphs. A block that no tensor uses can be
/// used again by the capture of its graph, and by nothing else: each launch
/// writes to it. Not thread-safe.
class graph_blocks {
public:
  /// Adds a block, which a tensor uses.
  void add(std::uint64_t graph, std::byte* block, const size_class& size) {
    auto& [idle, count] = lists_[{graph, size.index}];
    if (idle.capacity() <= count) // so that `release` allocates nothing
      idle.reserve(2 * count + 1);
    blocks_[block] = {graph, size};
    ++count;
  }

  /// Returns a block of a graph that no tensor has used, for a tensor. Null:
  /// there is none of this size.
  std::byte* take(std::uint64_t graph, const size_class& size) {
    const auto at = lists_.find({graph, size.index});
    if (at == lists_.end() || at->second.idle.empty())
      return nullptr;
    auto* const block = at->second.idle.back();
    at->second.idle.pop_back();
    return block;
  }

  /// Notes that no tensor uses a block.
  /// @returns false if the block belongs to no graph.
  bool release(std::byte* block) noexcept {
    const auto at = blocks_.find(block);
    if (at == blocks_.end())
      return false;
    const auto& [graph, size] = at->second;
    lists_.find({graph, size.index})->second.idle.push_back(block);
    return true;
  }

  /// Removes a graph. What tensors use belongs to no graph then.
  /// @param fn called with each block that no tensor uses, and its size.
  template <class F>
  void remove(std::uint64_t graph, F&& fn) {
    const auto first = lists_.lower_bound({graph, 0}),
               last = lists_.lower_bound({graph + 1, 0});
    for (auto at = first; at != last; ++at)
      for (auto* const block : at->second.idle)
        fn(block, blocks_.find(block)->second.size);
    lists_.erase(first, last);
    std::erase_if(blocks_,
                  [&](const auto& one) { return one.second.graph == graph; });
  }

private:
  struct owned_block {
    std::uint64_t graph = 0;
    size_class size{};
  };
  struct block_list {
    std::vector<std::byte*> idle; ///< Used by no tensor.
    std::size_t count = 0;        ///< Number of all blocks.
  };

  std::unordered_map<std::byte*, owned_block> blocks_;
  /// By graph and class of size.
  std::map<std::pair<std::uint64_t, std::size_t>, block_list> lists_;
};

} // namespace troupe::cuda
