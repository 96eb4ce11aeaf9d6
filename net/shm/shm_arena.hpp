#pragma once

#include "troupe/net/shm/memfd.hpp"

#include <cstdint>
#include <span>

// An arena holds the large buffers of a process. Other processes of the host
// read these buffers in place, so that contributions need not be copied.

namespace troupe::net {

/// The arena of this process: a memfd that only this process can write and that
/// cannot shrink. A page takes memory once it is written. This process may
/// return pages to the system.
class shm_arena {
public:
  /// Reserves as much address space as the machine has memory, but at most an
  /// eighth of the address space that this process may use (RLIMIT_AS).
  /// @errors throws std::runtime_error if the system has no memfd, or too
  ///         little address space is free.
  shm_arena();
  /// @pre `bytes` is a multiple of 4096 and at most `max_bytes`.
  explicit shm_arena(std::size_t bytes);

  static constexpr std::size_t max_bytes = std::size_t{1} << 42;

  /// Returns the descriptor to send to peers. It is open for reading only.
  int descriptor() const { return read_only_.get(); }

  std::span<std::byte> pages() const {
    return {pages_.begin(), pages_.bytes()};
  }

  /// Returns the offset of the bytes in the arena. Zero: the bytes cannot be
  /// sent zero-copy, because they start at the arena's first byte or do not lie
  /// completely in the arena.
  std::uint64_t offset_of(std::span<const std::byte> bytes) const;

private:
  net::descriptor fd_, read_only_;
  shm_mapping pages_;
};

/// A read-only mapping of a peer's arena. The peer may change the bytes at any
/// time.
class shm_arena_view {
public:
  /// @param fd any descriptor that a peer sent.
  /// @errors throws std::runtime_error, with a sentence, if it is not a memfd,
  ///         can shrink, or cannot be mapped.
  explicit shm_arena_view(int fd);

  /// Returns the bytes at an offset. Empty: not all of them lie in the arena.
  std::span<const std::byte> span_at(std::uint64_t offset,
                                     std::size_t bytes) const;

private:
  shm_mapping pages_;
};

} // namespace troupe::net
