#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace troupe {

/// Where tensors and the tape get their memory: blocks that were given back are
/// kept by size, so that a training step, once it has run, asks the system for
/// nothing. Safe to use from any thread.
namespace memory {

inline constexpr std::size_t alignment = 64;

/// @returns at least `bytes` bytes, aligned to 64; never null.
/// @errors throws std::bad_alloc.
/// @cost a lock and a list operation when a block of that size is at hand.
void* allocate(std::size_t bytes);

/// @pre `block` came from `allocate(bytes)`.
void release(void* block, std::size_t bytes) noexcept;

struct usage {
  std::size_t live = 0;   ///< Bytes in use.
  std::size_t cached = 0; ///< Bytes kept for reuse.
  std::size_t peak = 0;   ///< Largest sum of both so far.
};

usage used();

/// Gives all that is kept for reuse back to the system.
void trim();

/// Blocks of at least so many bytes come from the region, if there is one.
inline constexpr std::size_t least_in_region = std::size_t{32} * 1024;

/// Has large blocks come from these pages from now on, while there is room:
/// memory that others can read where it lies, say. What is given back to the
/// system leaves a hole in the file behind them.
/// @param pages of a file in memory, mapped shared and for good.
/// @errors throws std::logic_error if there is a region already.
void use_region(std::span<std::byte> pages);

} // namespace memory

/// For containers that live and die within a step.
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

/// A vector that asks the system for nothing in a step that ran before.
template <class T>
using pooled = std::vector<T, pool_allocator<T>>;

} // namespace troupe
