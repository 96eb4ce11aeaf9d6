#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <cstddef>
#include <string>
#include <utility>

// Memory files (memfd), which one process creates and another maps.

namespace troupe::net {

/// Creates a memfd of `bytes` zeros. Pages take memory once they are written.
/// @errors throws std::runtime_error if the system has no memfd, or the size
///         exceeds a limit.
descriptor create_memfd(std::size_t bytes);

/// Fixes the size for good, and adds the given seals.
void seal_memfd(int fd, int seals = 0);

/// Validates a descriptor that a peer sent.
/// @param fd any descriptor.
/// @returns its size in bytes, which cannot become less.
/// @errors throws std::runtime_error, with a sentence, unless it is a memfd
///         that cannot shrink.
std::size_t validate_memfd(int fd);

/// A mapping of the pages of a memfd.
class shm_mapping {
public:
  /// @errors throws std::runtime_error if it cannot be mapped.
  shm_mapping(int fd, std::size_t bytes, int protection);
  ~shm_mapping();
  shm_mapping(shm_mapping&& x) noexcept
    : begin_{std::exchange(x.begin_, nullptr)}, bytes_{x.bytes_} {}
  shm_mapping& operator=(shm_mapping&&) = delete;

  std::byte* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }

private:
  std::byte* begin_;
  std::size_t bytes_;
};

} // namespace troupe::net
