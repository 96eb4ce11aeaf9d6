#pragma once

#include "troupe/tensors/device.hpp"
#include "troupe/tensors/memory.hpp"

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace troupe::cuda {

/// Memory of one device. Released blocks are kept by size, and given out again
/// at once: all work runs in one stream, so work that uses a block anew comes
/// after the work that used it before. Thread-safe.
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
  memory::usage used() const;

  /// Limits `live` and `cached` together. 0: no limit.
  void set_limit(std::size_t bytes);
  /// Returns all kept blocks to the device.
  void trim();

private:
  static constexpr std::size_t classes = 8 * 48;

  void trim_locked() noexcept;

  const device on_;
  mutable std::mutex lock_;
  std::array<std::vector<std::byte*>, classes> free_; ///< By class of size.
  memory::usage usage_;
  std::size_t limit_ = 0;
};

} // namespace troupe::cuda
