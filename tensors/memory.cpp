#include "troupe/tensors/memory.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

namespace troupe::memory {

namespace {

struct free_block {
  free_block* next;
};

/// Sizes in classes of 1/8 of a power of two: at most 12.5% of a block is lost.
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

class pool {
public:
  void* take(std::size_t wanted) {
    if (wanted > largest)
      throw std::bad_alloc{};
    const auto [index, bytes] = class_of(wanted);
    {
      const std::lock_guard hold{lock_};
      usage_.live += bytes;
      most_live_ = std::max(most_live_, usage_.live);
      if (auto* block = free_[index]) {
        free_[index] = block->next;
        usage_.cached -= bytes;
        return block;
      }
      // A new shape: what the old shapes left behind must not pile up. But
      // replicas whose steps overlap differently each time miss now and then,
      // and give back nothing that the next step takes.
      const auto most = most_live_ + std::max(spare, most_live_ / 4);
      if (usage_.live + usage_.cached > most)
        release_some(usage_.live + usage_.cached - most);
      usage_.peak = std::max(usage_.peak, usage_.live + usage_.cached);
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
    free_[index] = new (block) free_block{free_[index]};
  }

  void trim() {
    const std::lock_guard hold{lock_};
    release_some(usage_.cached);
    most_live_ = usage_.live;
  }

  usage used() {
    const std::lock_guard hold{lock_};
    return usage_;
  }

private:
  static constexpr std::size_t spare = 32u << 20;
  static constexpr std::size_t largest = std::size_t{1} << 46; // 64 TiB

  void release_some(std::size_t goal) {
    for (std::size_t i = classes; i-- > 0 && goal > 0;) {
      const auto bytes = (8 + i % 8) << (i / 8 - 3);
      while (free_[i] && goal > 0) {
        auto* block = free_[i];
        free_[i] = block->next;
        usage_.cached -= bytes;
        goal -= std::min(goal, bytes);
        std::free(block);
      }
    }
  }

  std::mutex lock_;
  std::array<free_block*, classes> free_{};
  usage usage_;
  std::size_t most_live_ = 0; ///< Since the last trim.
};

/// Never destroyed: tensors in statics may outlive it otherwise.
pool& the_pool() {
  static auto* it = new pool;
  return *it;
}

} // namespace

void* allocate(std::size_t bytes) {
  return the_pool().take(bytes);
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

} // namespace troupe::memory
