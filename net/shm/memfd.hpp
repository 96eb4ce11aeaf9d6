#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <cstddef>
#include <string>
#include <utility>

// A memfd is a file in memory that one process creates and other processes map.

namespace troupe::net {

/// Creates a memfd of `bytes` zeros. A page takes memory once it is written.
/// @errors throws std::runtime_error if the system has no memfd, or the size
///         exceeds a limit.
descriptor create_memfd(std::size_t bytes);

/// Seals the memfd, so that its size cannot change, and adds the given seals.
void seal_memfd(int fd, int seals = 0);

/// Validates a descriptor that a peer sent.
/// @param fd any descriptor.
/// @returns the size of the memfd in bytes, which cannot shrink.
/// @errors throws std::runtime_error, with a sentence, if it is not a memfd or
///         can shrink.
std::size_t validate_memfd(int fd);

/// A mapping of the pages of a memfd. If the address space is limited
/// (RLIMIT_AS), it leaves 192 MiB to the threads of the process.
class shm_mapping {
public:
  /// @errors throws std::runtime_error if the pages cannot be mapped.
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
