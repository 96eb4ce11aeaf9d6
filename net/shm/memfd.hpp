#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <cstddef>
#include <string>
#include <utility>

// Files in memory, which one process makes and another maps.

namespace troupe::net {

/// A file of so many zeros, which take memory once they are written.
/// @errors throws std::runtime_error if this system has no such thing.
descriptor make_memory_file(std::size_t bytes);

/// Keeps its size as it is for good, and what else the seals say.
void seal_memory_file(int fd, int seals = 0);

/// @param fd of anything, by whoever sent it.
/// @returns its bytes, which cannot become less.
/// @errors throws std::runtime_error, with a sentence, unless it is memory that
///         cannot shrink.
std::size_t check_memory_file(int fd);

/// Pages of a file in memory.
class shm_mapping {
public:
  /// @errors throws std::runtime_error.
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
