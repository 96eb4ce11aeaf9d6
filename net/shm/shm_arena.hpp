#pragma once

#include "troupe/net/shm/memfd.hpp"

#include <cstdint>
#include <span>

// Where a process's large buffers lie, so that others of its host read them
// there: a part of a sum need not be copied to be sent.

namespace troupe::net {

/// A file in memory that its maker alone writes, and nobody can shorten. Its
/// pages take memory once they are written; the maker may give them back.
class shm_arena {
public:
  /// As much as this machine has memory, in addresses, and at most a quarter of
  /// those that this process may have (RLIMIT_AS).
  /// @errors throws std::runtime_error if this system has no such memory, or
  ///         not so many addresses.
  shm_arena();
  /// @pre `bytes` is a multiple of 4096, and no more than `most_bytes`.
  explicit shm_arena(std::size_t bytes);

  static constexpr std::size_t most_bytes = std::size_t{1} << 42;

  /// To be passed on; it cannot be written through.
  int descriptor() const { return read_only_.get(); }

  std::span<std::byte> pages() const {
    return {pages_.begin(), pages_.bytes()};
  }

  /// Where bytes lie in it, or 0, which none do that may be passed on.
  std::uint64_t place_of(std::span<const std::byte> bytes) const;

private:
  net::descriptor fd_, read_only_;
  shm_mapping pages_;
};

/// Another's. All of it may change at any time.
class shm_arena_view {
public:
  /// @param fd of anything, by whoever sent it.
  /// @errors throws std::runtime_error, with a sentence, unless it is memory
  ///         that cannot shrink, and can be mapped.
  explicit shm_arena_view(int fd);

  /// Empty if they do not all lie in it.
  std::span<const std::byte> at(std::uint64_t place, std::size_t bytes) const;

private:
  shm_mapping pages_;
};

} // namespace troupe::net
