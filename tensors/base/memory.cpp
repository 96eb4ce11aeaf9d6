#include "troupe/tensors/base/memory.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace troupe::memory {

namespace {

struct free_block {
  free_block* next;
};

/// There are 8 size classes for each power of two. Thus at most 12.5% of a
/// block is unused.
constexpr std::size_t classes = 8 * 64;

struct size_class {
  std::size_t index, bytes;
};

size_class class_of(std::size_t bytes) {
  bytes = std::max(bytes, alignment);
  const auto log = static_cast<unsigned>(std::bit_width(bytes - 1));
  const auto step = std::max(alignment, (std::size_t{1} << log) / 16);
  const auto rounded = (bytes + step - 1) / step * step;
  const auto width = static_cast<unsigned>(std::bit_width(rounded) - 1);
  const auto eighth = (rounded >> (width - 3)) & 7; // width >= 6
  return {width * 8 + eighth, rounded};
}

std::size_t page_bytes() {
  static const auto it = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return it;
}

/// Allocates blocks of whole pages, one after the other. `drop` frees a block:
/// it keeps the first page of the block and returns the other pages to the
/// system. A freed block is reused for its own size class only.
class region {
public:
  region() = default;
  explicit region(std::span<std::byte> pages) : pages_{pages} {}

  explicit operator bool() const { return !pages_.empty(); }

  bool holds(const void* block) const {
    return block >= pages_.data() && block < pages_.data() + pages_.size();
  }

  /// Returns null if the region is full.
  void* take(size_class block_class) {
    if (auto* block = dropped_[block_class.index]) {
      dropped_[block_class.index] = block->next;
      return block;
    }
    const auto page = page_bytes();
    const auto size = (block_class.bytes + page - 1) / page * page;
    if (size > pages_.size() - used_)
      return nullptr;
    used_ += size;
    return pages_.data() + used_ - size;
  }

  void drop(void* block, size_class block_class) {
    if (const auto page = page_bytes(); block_class.bytes > page)
      ::madvise(static_cast<std::byte*>(block) + page, block_class.bytes - page,
                MADV_REMOVE);
    dropped_[block_class.index] =
      new (block) free_block{dropped_[block_class.index]};
  }

private:
  std::span<std::byte> pages_;
  std::size_t used_ = 0;
  std::array<free_block*, classes> dropped_{};
};

class pool {
public:
  void* take(std::size_t wanted, bool shareable) {
    if (wanted > max_block_bytes)
      throw std::bad_alloc{};
    const auto [index, bytes] = class_of(wanted);
    {
      const std::lock_guard hold{lock_};
      usage_.live += bytes;
      max_live_ = std::max(max_live_, usage_.live);
      const bool is_shared =
        shared_pages_ && shareable && bytes >= min_region_bytes;
      auto& list = (is_shared ? free_shared_ : free_)[index];
      if (auto* block = list) {
        list = block->next;
        usage_.cached -= bytes;
        return block;
      }
      // No block of this size is cached, perhaps because shapes have changed.
      // If more than `max_bytes` are live or cached, cached blocks are
      // released. `max_bytes` is larger than `max_live_`, because the replicas
      // run at different times in each step. One step may need more blocks of
      // this size at once than the step before it. That must not release blocks
      // that the next step needs.
      const auto max_bytes = max_live_ + std::max(min_slack, max_live_ / 4);
      if (usage_.live + usage_.cached > max_bytes)
        release_some(usage_.live + usage_.cached - max_bytes);
      usage_.peak = std::max(usage_.peak, usage_.live + usage_.cached);
      if (is_shared)
        if (auto* block = shared_pages_.take({index, bytes}))
          return block;
      if (is_shared && free_[index]) { // the shared region is full
        usage_.cached -= bytes;
        return std::exchange(free_[index], free_[index]->next);
      }
    }
    if (void* block = std::aligned_alloc(alignment, bytes))
      return block;
    trim();
    if (void* block = std::aligned_alloc(alignment, bytes))
      return block;
    const std::lock_guard hold{lock_};
    usage_.live -= bytes;
    throw std::bad_alloc{};
  }

  void put(void* block, std::size_t wanted) noexcept {
    const auto [index, bytes] = class_of(wanted);
    const std::lock_guard hold{lock_};
    usage_.live -= bytes;
    usage_.cached += bytes;
    auto& list = (shared_pages_.holds(block) ? free_shared_ : free_)[index];
    list = new (block) free_block{list};
  }

  void use_shared_region(std::span<std::byte> pages) {
    const std::lock_guard hold{lock_};
    if (shared_pages_)
      throw std::logic_error("a shared region is set already");
    release_some(usage_.cached);
    shared_pages_ = region{pages};
  }

  void trim() {
    const std::lock_guard hold{lock_};
    release_some(usage_.cached);
    max_live_ = usage_.live;
  }

  usage used() {
    const std::lock_guard hold{lock_};
    return usage_;
  }

private:
  static constexpr std::size_t min_slack = 32u << 20;
  static constexpr std::size_t max_block_bytes = std::size_t{1} << 46; // 64 TiB

  /// Free blocks, by size.
  using free_lists = std::array<free_block*, classes>;

  void release_some(std::size_t goal) {
    for (std::size_t i = classes; i-- > 0 && goal > 0;)
      for (auto* lists : {&free_shared_, &free_})
        release_some((*lists)[i], {i, (8 + i % 8) << (i / 8 - 3)}, goal);
  }

  void release_some(free_block*& list, size_class block_class,
                    std::size_t& goal) {
    while (list && goal > 0) {
      auto* block = std::exchange(list, list->next);
      usage_.cached -= block_class.bytes;
      goal -= std::min(goal, block_class.bytes);
      if (shared_pages_.holds(block))
        shared_pages_.drop(block, block_class);
      else
        std::free(block);
    }
  }

  std::mutex lock_;
  region shared_pages_;
  free_lists free_shared_{}, free_{}; ///< In the shared region, and others.
  usage usage_;
  std::size_t max_live_ = 0; ///< Maximum of `live` since the last trim.
};

/// The pool is never destroyed, because static tensors could be destroyed
/// later.
pool& the_pool() {
  static auto* it = new pool;
  return *it;
}

} // namespace

void* allocate(std::size_t bytes, bool shareable) {
  return the_pool().take(bytes, shareable);
}

void release(void* block, std::size_t bytes) noexcept {
  if (block)
    the_pool().put(block, bytes);
}

usage used() {
  return the_pool().used();
}

void trim() {
  the_pool().trim();
}

void use_shared_region(std::span<std::byte> pages) {
  the_pool().use_shared_region(pages);
}

} // namespace troupe::memory
