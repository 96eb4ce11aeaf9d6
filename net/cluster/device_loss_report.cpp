#include "troupe/net/cluster/device_loss_report.hpp"

#include "troupe/net/cluster/launcher_link.hpp"

#include <cstdlib>
#include <string>
#include <sys/socket.h>

namespace troupe::net {

void report_lost_device() noexcept {
  if (!launcher_link::from_environment()) // also if it is no socket
    return;
  const auto line = std::string{device_lost_line} + '\n';
  [[maybe_unused]] const auto sent =
    ::send(std::atoi(std::getenv(launcher_link::variable)), line.data(),
           line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

} // namespace troupe::net
