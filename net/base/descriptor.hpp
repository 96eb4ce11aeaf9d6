#pragma once

#include <cerrno>
#include <unistd.h>
#include <utility>

namespace troupe::net {

/// Owns a file descriptor, and closes it on destruction. -1: none.
class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_{fd} {}
  ~descriptor() { reset(); }
  descriptor(descriptor&& x) noexcept : fd_{std::exchange(x.fd_, -1)} {}
  descriptor& operator=(descriptor&& x) noexcept {
    reset();
    fd_ = std::exchange(x.fd_, -1);
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() { // keeps `errno`, which the caller may still read
    if (fd_ < 0)
      return;
    const auto error = errno;
    ::close(release());
    errno = error;
  }

private:
  int fd_ = -1;
};

} // namespace troupe::net
