#pragma once

#include "troupe/tensors/base/memory.hpp"
#include "troupe/tensors/cuda/graph_blocks.hpp"
#include "troupe/tensors/cuda/size_class.hpp"
#include "troupe/tensors/device.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace troupe::cuda {

/// Memory of one device. Released blocks are kept by size, and given out again
/// at once. All work runs in one stream, so a new use of a block comes after
/// its earlier uses. The memory that a thread allocates while it captures a
/// graph belongs to that graph. Thread-safe.
class memory_cache {
public:
  explicit memory_cache(const device& on) : on_{on} {}
  memory_cache(const memory_cache&) = delete;
  memory_cache& operator=(const memory_cache&) = delete;

  /// Returns a block of at least `bytes` bytes, aligned to 256.
  /// @errors throws device_error that says how much was asked for and is free,
  ///         after blocks that are kept were returned to the device.
  /// @cost a lock and a list operation if a block of that size is kept.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* block, std::size_t bytes) noexcept;
  /// The memory of a graph is `live` until the graph is removed.
  memory::usage used() const;

  /// Returns the number of a new graph.
  std::uint64_t add_graph();
  /// Keeps the blocks of a graph that no tensor uses. The others are kept when
  /// they are released.
  void remove_graph(std::uint64_t graph) noexcept;

  /// Limits `live` and `cached` together. 0: no limit.
  void set_limit(std::size_t bytes);
  /// Returns all kept blocks to the device.
  void trim();

private:
  static constexpr std::size_t classes = 8 * 48;

  std::byte* allocate_locked(std::size_t bytes, const size_class& size);
  void keep_locked(std::byte* block, const size_class& size) noexcept;
  void trim_locked() noexcept;

  const device on_;
  mutable std::mutex lock_;
  std::array<std::vector<std::byte*>, classes> free_; ///< By class of size.
  graph_blocks graph_blocks_;
  std::uint64_t last_graph_ = 0;
  memory::usage usage_;
  std::size_t limit_ = 0;
};

} // namespace troupe::cuda
