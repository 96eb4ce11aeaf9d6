#pragma once

#include "troupe/net/shm/memfd.hpp"

#include <cstdint>
#include <span>

// Memory for the large buffers of a process. Other processes of its host read
// it in place, so that a contribution need not be copied.

namespace troupe::net {

/// A memfd that only its creator writes, and that cannot shrink. Its pages take
/// memory once they are written; the creator may give them back.
class shm_arena {
public:
  /// Reserves addresses for the size of this machine's memory, and at most a
  /// quarter of those that this process may have (RLIMIT_AS).
  /// @errors throws std::runtime_error if the system has no memfd, or not
  ///         enough addresses.
  shm_arena();
  /// @pre `bytes` is a multiple of 4096, and no more than `max_bytes`.
  explicit shm_arena(std::size_t bytes);

  static constexpr std::size_t max_bytes = std::size_t{1} << 42;

  /// Descriptor to be sent to peers; it is open for reading only.
  int descriptor() const { return read_only_.get(); }

  std::span<std::byte> pages() const {
    return {pages_.begin(), pages_.bytes()};
  }

  /// Offset of bytes in the arena. Zero: they do not lie in it as a whole, or
  /// lie at its start, which is never sent.
  std::uint64_t offset_of(std::span<const std::byte> bytes) const;

private:
  net::descriptor fd_, read_only_;
  shm_mapping pages_;
};

/// A peer's arena. All of it may change at any time.
class shm_arena_view {
public:
  /// @param fd any descriptor that a peer sent.
  /// @errors throws std::runtime_error, with a sentence, unless it is a memfd
  ///         that cannot shrink and can be mapped.
  explicit shm_arena_view(int fd);

  /// The bytes at an offset. Empty: they do not all lie in the arena.
  std::span<const std::byte> span_at(std::uint64_t offset,
                                     std::size_t bytes) const;

private:
  shm_mapping pages_;
};

} // namespace troupe::net
