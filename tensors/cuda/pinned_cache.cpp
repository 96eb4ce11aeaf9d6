#include "troupe/tensors/cuda/pinned_cache.hpp"

#include "troupe/tensors/cuda/size_class.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace troupe::cuda {

namespace {

std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  return class_of(std::max(bytes, page)).bytes;
}

} // namespace

std::byte* pinned_cache::allocate(std::size_t bytes) {
  const auto size = rounded(bytes);
  {
    const std::lock_guard hold{lock_};
    if (auto& list = kept_[size]; !list.empty()) {
      auto* const block = list.back();
      list.pop_back();
      kept_bytes_ -= size;
      return block;
    }
  }
  auto* block = from_.allocate(size);
  if (!block) {
    trim();
    block = from_.allocate(size);
  }
  if (!block)
    throw std::bad_alloc{};
  return static_cast<std::byte*>(block);
}

void pinned_cache::release(std::byte* block, std::size_t bytes) noexcept {
  const auto size = rounded(bytes);
  if (size > max_kept_bytes_)
    return from_.release(block);
  blocks_by_size replaced;
  {
    const std::lock_guard hold{lock_};
    if (kept_bytes_ > max_kept_bytes_ - size) {
      replaced.swap(kept_);
      kept_bytes_ = 0;
    }
    try {
      kept_[size].push_back(block);
      kept_bytes_ += size;
    } catch (...) { // no memory of the host
      from_.release(block);
    }
  }
  release_all(replaced);
}

void pinned_cache::trim() noexcept {
  blocks_by_size kept;
  {
    const std::lock_guard hold{lock_};
    kept.swap(kept_);
    kept_bytes_ = 0;
  }
  release_all(kept);
}

void pinned_cache::release_all(const blocks_by_size& blocks) noexcept {
  for (const auto& [size, list] : blocks)
    for (auto* const block : list)
      from_.release(block);
}

} // namespace troupe::cuda
