// Replaces the global operator new and delete in a program that links
// Troupe::step_allocator. Requests of up to 1 KiB are served from free lists of
// the calling thread. Therefore a repeated training step calls no malloc and
// takes no lock, although oneDNN builds a hash table in every execution of a
// primitive. Larger requests go to malloc.
//
// Small blocks lie in one reserved address range. It is divided into chunks;
// all blocks of a chunk have the same size. Thus delete finds out from an
// address, in any thread, whether the block is small and which size it has. A
// thread keeps a bounded number of free blocks of each size. Excess blocks, and
// all free blocks of a thread that ends, move to a list that all threads share.
// Memory of small blocks is reused, but never returned to the system.
//
// The sanitizers replace these operators themselves. With a sanitizer this file
// is empty.

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)        \
  || __has_feature(memory_sanitizer)
#define TROUPE_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TROUPE_SANITIZED
#endif

#ifndef TROUPE_SANITIZED

#include "troupe/tensors/allocator/shared_lists.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// -- local to a thread --------------------------------------------------------

/// Free blocks of one thread, zero-initialized. `active` is 0 until the thread
/// first calls `refill` or `release_slowly`, and again after the thread's exit.
/// Blocks that are freed after the exit go to the shared list.
struct thread_lists {
  block* free[classes];
  std::uint32_t count[classes];
  std::uint32_t active;
};

constinit thread_local thread_lists local_lists{};

/// Moves all blocks of a thread to the shared lists when the thread exits.
struct thread_exit_flush {
  ~thread_exit_flush() {
    local_lists.active = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      auto* first = local_lists.free[i];
      if (!first)
        continue;
      auto* last = first;
      while (last->next)
        last = last->next;
      shared[i].put(first, last);
      local_lists.free[i] = nullptr;
      local_lists.count[i] = 0;
    }
  }
  bool constructed = true;
};

enum class thread_phase : std::uint8_t { fresh, running };
constinit thread_local thread_phase phase = thread_phase::fresh;

/// Activates the lists of the calling thread. Only the first call has an
/// effect, so an exiting thread does not activate its lists again.
void begin_thread() {
  if (phase != thread_phase::fresh)
    return;
  phase = thread_phase::running;
  static thread_local thread_exit_flush flush;
  local_lists.active = flush.constructed ? 1 : 0;
}

void* from_malloc(std::size_t size, std::size_t alignment) {
  for (;;) {
    void* pointer = nullptr;
    if (alignment <= granule)
      pointer = std::malloc(size > 0 ? size : 1);
    else if (posix_memalign(&pointer, alignment, size > 0 ? size : 1) != 0)
      pointer = nullptr;
    if (pointer)
      return pointer;
    const auto handler = std::get_new_handler();
    if (!handler)
      throw std::bad_alloc{};
    handler();
  }
}

[[gnu::noinline]] void* refill(std::size_t index) {
  if (range_size.load(std::memory_order_acquire) == 0) {
    reserve();
    if (range_size.load(std::memory_order_acquire) == 0)
      return from_malloc(size_of(index), granule);
  }
  begin_thread();
  std::uint32_t got = 0;
  auto* list =
    shared[index].take(index, local_lists.active ? batch_of(index) : 1, got);
  if (!list)
    return from_malloc(size_of(index), granule);
  local_lists.free[index] = list->next;
  local_lists.count[index] = got - 1;
  return list;
}

/// Frees a block. If the thread then holds more than two batches of free blocks
/// of this size, moves one batch to the shared list.
[[gnu::noinline]] void release_slowly(block* freed, std::size_t index) {
  begin_thread();
  if (!local_lists.active) {
    shared[index].put(freed, freed);
    return;
  }
  freed->next = local_lists.free[index];
  local_lists.free[index] = freed;
  if (++local_lists.count[index] <= 2 * batch_of(index))
    return;
  auto* last = freed;
  for (std::uint32_t i = 1; i < batch_of(index); ++i)
    last = last->next;
  local_lists.free[index] = last->next;
  local_lists.count[index] -= batch_of(index);
  shared[index].put(freed, last);
}

inline void* take(std::size_t size) {
  if (size > max_block_bytes)
    return from_malloc(size, granule);
  const auto index = class_of(size);
  auto* taken = local_lists.free[index];
  if (!taken)
    return refill(index);
  local_lists.free[index] = taken->next;
  --local_lists.count[index];
  return taken;
}

inline void put(void* pointer) noexcept {
  const auto size = range_size.load(std::memory_order_acquire);
  const auto offset =
    reinterpret_cast<std::uintptr_t>(pointer)
    - reinterpret_cast<std::uintptr_t>(range.load(std::memory_order_relaxed));
  if (offset >= size) {
    std::free(pointer);
    return;
  }
  const std::size_t index = class_of_chunk[offset / chunk_size];
  auto* freed = static_cast<block*>(pointer);
  if (local_lists.active == 0
      || local_lists.count[index] >= 2 * batch_of(index)) {
    release_slowly(freed, index);
    return;
  }
  freed->next = local_lists.free[index];
  local_lists.free[index] = freed;
  ++local_lists.count[index];
}

} // namespace

// The standard library's other forms of new and delete call the following ones.

void* operator new(std::size_t size) {
  return take(size);
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto wanted = static_cast<std::size_t>(alignment);
  return wanted <= granule ? take(size) : from_malloc(size, wanted);
}

void operator delete(void* at) noexcept {
  put(at);
}

void operator delete(void* at, std::size_t) noexcept {
  put(at);
}

void operator delete(void* at, std::align_val_t) noexcept {
  put(at);
}

void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  put(at);
}

#endif
