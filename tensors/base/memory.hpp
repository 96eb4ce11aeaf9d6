#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace troupe {

/// Allocates memory for tensors and tapes. Released blocks are cached by size,
/// so a repeated training step requests no memory from the system. Thread-safe.
namespace memory {

inline constexpr std::size_t alignment = 64;

/// Returns a block of at least `bytes` bytes, aligned to 64; never null.
/// @param shareable the block may lie in the shared region, if one is set. The
///        system provides the pages of the region in 0.6 ms per MiB, and those
///        of other blocks in 0.4 ms.
/// @errors throws std::bad_alloc.
/// @cost a lock and a list operation if a block of that size is cached.
void* allocate(std::size_t bytes, bool shareable = true);

/// Releases a block to the cache. Null: no effect.
/// @pre `block` was returned by `allocate` for `bytes` bytes.
void release(void* block, std::size_t bytes) noexcept;

/// Memory usage of the process.
struct usage {
  std::size_t live = 0;   ///< Bytes in use.
  std::size_t cached = 0; ///< Bytes kept for reuse.
  std::size_t peak = 0;   ///< Maximum of live + cached so far.
};

usage used();

/// Returns all cached blocks to the system.
void trim();

/// Minimum size of the blocks that are allocated in the shared region, if one
/// is set.
inline constexpr std::size_t min_region_bytes = std::size_t{32} * 1024;

/// From now on, allocates shareable blocks of at least `min_region_bytes` in
/// these pages, while there is space. Other processes that map the same file
/// can read such blocks in place. A block that is returned to the system leaves
/// a hole in the file.
/// @param pages A shared mapping of a memory file. It must stay mapped until
///        the process ends.
/// @errors throws std::logic_error if a region is set already.
void use_shared_region(std::span<std::byte> pages);

} // namespace memory

/// Allocator for containers that are created and destroyed within a step.
template <class T>
struct pool_allocator {
  using value_type = T;

  pool_allocator() = default;
  template <class U>
  pool_allocator(const pool_allocator<U>&) {}

  T* allocate(std::size_t n) {
    return static_cast<T*>(memory::allocate(n * sizeof(T)));
  }
  void deallocate(T* block, std::size_t n) noexcept {
    memory::release(block, n * sizeof(T));
  }
  template <class U>
  bool operator==(const pool_allocator<U>&) const {
    return true;
  }
};

/// A vector that takes its memory from the cache of released blocks. A step
/// that needs the same block sizes as the step before it requests no memory
/// from the system.
template <class T>
using pooled = std::vector<T, pool_allocator<T>>;

} // namespace troupe
