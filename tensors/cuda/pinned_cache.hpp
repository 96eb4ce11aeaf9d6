#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::cuda {

/// Pinned memory of the host. Released blocks are kept by size, because the
/// system takes long to provide one. Thread-safe.
class pinned_cache {
public:
  /// Where blocks come from.
  struct source {
    std::function<void*(std::size_t bytes)> allocate; ///< Null: none is left.
    std::function<void(void* block)> release;         ///< Throws nothing.
  };

  /// @param max_kept_bytes maximum size of all blocks that are kept.
  pinned_cache(source from, std::size_t max_kept_bytes)
    : from_{std::move(from)}, max_kept_bytes_{max_kept_bytes} {}
  pinned_cache(const pinned_cache&) = delete;
  pinned_cache& operator=(const pinned_cache&) = delete;

  /// Returns a block of at least `bytes` bytes, aligned to 64.
  /// @errors throws std::bad_alloc if none is left after all blocks that are
  ///         kept were returned to the source.
  std::byte* allocate(std::size_t bytes);

  /// Keeps a block. If too much would be kept, the blocks that were kept before
  /// return to the source.
  void release(std::byte* block, std::size_t bytes) noexcept;

private:
  using blocks_by_size = std::map<std::size_t, std::vector<std::byte*>>;

  /// Returns all blocks that are kept to the source.
  void trim() noexcept;
  void release_all(const blocks_by_size& blocks) noexcept;

  const source from_;
  const std::size_t max_kept_bytes_;
  std::mutex lock_;
  blocks_by_size kept_;
  std::size_t kept_bytes_ = 0;
};

} // namespace troupe::cuda
