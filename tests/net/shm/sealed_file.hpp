#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <cstddef>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace troupe::net::testing {

/// Returns a memfd of that size with these seals, such as a peer may send.
inline descriptor file_of(std::size_t bytes, int seals) {
  descriptor fd{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0
      || ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0)
    throw std::runtime_error("cannot create a memfd");
  return fd;
}

} // namespace troupe::net::testing
