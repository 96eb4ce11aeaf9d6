#include "troupe/net/bell.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/eventfd.h>

namespace troupe::net {

bell::bell() : fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
  if (!fd_)
    throw std::runtime_error("no bell for lanes: "
                             + std::string{std::strerror(errno)});
}

void bell::silence() {
  if (!listening_)
    return;
  listening_ = false;
  std::uint64_t times;
  [[maybe_unused]] const auto read = ::read(fd_.get(), &times, sizeof times);
}

void ring(int descriptor) {
  const std::uint64_t once = 1;
  // it only fails if the bell is ringing as loud as it can
  [[maybe_unused]] const auto n = ::write(descriptor, &once, sizeof once);
}

} // namespace troupe::net
