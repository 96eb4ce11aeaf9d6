#pragma once

// The part of the step allocator that all threads share: the address range, and
// a list of free blocks per size class. Only step_allocator.cpp includes this
// file. Nothing here calls operator new.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

namespace {

constexpr std::size_t granule = 16; // Alignment of all blocks.
constexpr std::size_t max_block_bytes = 1024;
constexpr std::size_t classes = max_block_bytes / granule;
constexpr std::size_t chunk_size = 64 << 10;
constexpr std::size_t chunk_count = 64 << 10; // 4 GiB in total.
static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ <= granule);

struct block {
  block* next;
};

constexpr std::size_t class_of(std::size_t size) {
  return size == 0 ? 0 : (size - 1) / granule;
}

constexpr std::size_t size_of(std::size_t index) {
  return (index + 1) * granule;
}

/// Number of free blocks of size class `index` that a thread takes from the
/// shared list, or moves to it, at once.
constexpr std::uint32_t batch_of(std::size_t index) {
  return index < 8 ? 64 : index < 32 ? 32 : 16;
}

// -- the range ----------------------------------------------------------------

std::atomic<char*> range{nullptr};
/// Size of `range` in bytes. Zero until `reserve` has set `range` and this
/// size.
std::atomic<std::size_t> range_size{0};
std::atomic<std::size_t> chunks_used{0};
std::uint8_t class_of_chunk[chunk_count];

/// Takes the next unused chunk of `range`, and records that its blocks have
/// size class `index`.
/// @returns null if `range` has no unused chunk or the system is out of memory.
char* new_chunk(std::size_t index) {
  const auto i = chunks_used.fetch_add(1, std::memory_order_relaxed);
  if ((i + 1) * chunk_size > range_size.load(std::memory_order_relaxed)) {
    chunks_used.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  auto* at = range.load(std::memory_order_relaxed) + i * chunk_size;
  if (mprotect(at, chunk_size, PROT_READ | PROT_WRITE) != 0)
    return nullptr; // The system is out of memory. The chunk stays unused.
  class_of_chunk[i] = static_cast<std::uint8_t>(index);
  return at;
}

// -- shared by all threads ----------------------------------------------------

/// The free blocks of one size class that no thread owns. A spin lock guards
/// them.
class shared_list {
public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire))
      sched_yield();
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

  /// Takes up to `wanted` blocks and stores their number in `got`.
  /// @returns a linked list of blocks; null if there is no memory.
  block* take(std::size_t index, std::uint32_t wanted, std::uint32_t& got) {
    lock();
    block* list = nullptr;
    for (got = 0; got < wanted; ++got) {
      auto* taken = free_ ? free_ : carve(index);
      if (!taken)
        break;
      if (taken == free_)
        free_ = taken->next;
      taken->next = list;
      list = taken;
    }
    unlock();
    return list;
  }

  void put(block* first, block* last) {
    lock();
    last->next = free_;
    free_ = first;
    unlock();
  }

private:
  block* carve(std::size_t index) {
    const auto size = size_of(index);
    if (static_cast<std::size_t>(chunk_end_ - chunk_position_) < size) {
      chunk_position_ = new_chunk(index);
      chunk_end_ = chunk_position_ ? chunk_position_ + chunk_size : nullptr;
      if (!chunk_position_)
        return nullptr;
    }
    auto* one = reinterpret_cast<block*>(chunk_position_);
    chunk_position_ += size;
    return one;
  }

  std::atomic<bool> locked_{false};
  block* free_ = nullptr;
  /// The unused part of the newest chunk is [chunk_position_, chunk_end_).
  char* chunk_position_ = nullptr;
  char* chunk_end_ = nullptr;
};

constinit shared_list shared[classes];

void lock_all() {
  for (auto& list : shared)
    list.lock();
}

void unlock_all() {
  for (auto& list : shared)
    list.unlock();
}

/// Returns the bytes of address space to reserve at most: an eighth of what
/// this process may use (RLIMIT_AS), so that its threads find room.
std::size_t max_range_size() {
  const auto all = chunk_count * chunk_size;
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
             && limit.rlim_cur / 8 < all
           ? limit.rlim_cur / 8
           : all;
}

/// Reserves the address range; chunks get memory when they are taken. Fork
/// handlers hold the locks of all lists during a fork, so that the lists are
/// consistent in the child process.
void reserve() {
  static std::atomic<bool> begun{false};
  if (begun.exchange(true))
    return; // Until the first caller is done, other threads use malloc.
  const auto most = max_range_size();
  for (auto size = chunk_count * chunk_size; size >= chunk_size; size /= 4) {
    if (size > most)
      continue;
    void* reserved = mmap(nullptr, size, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
      continue;
    pthread_atfork(lock_all, unlock_all, unlock_all);
    range.store(static_cast<char*>(reserved), std::memory_order_relaxed);
    range_size.store(size, std::memory_order_release);
    return;
  }
}

} // namespace
