#include "troupe/net/io/cut_connections.hpp"

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace troupe::net {

namespace {

bool is_internet(const socket_address& x) {
  return x.storage.ss_family == AF_INET || x.storage.ss_family == AF_INET6;
}

/// Returns the address of the other end. Its size is 0 if the descriptor is no
/// connected socket.
socket_address peer_address(int descriptor) {
  socket_address out;
  out.size = sizeof out.storage;
  if (::getpeername(descriptor, out.get(), &out.size) != 0)
    out.size = 0;
  return out;
}

std::vector<int> open_descriptors() {
  std::vector<int> out;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator{"/proc/self/fd", ignored}) {
    const auto name = entry.path().filename().string();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number >= 0)
      out.push_back(number);
  }
  return out;
}

} // namespace

std::size_t cut_connections(
  const std::function<bool(const socket_address& own,
                           const socket_address& peer)>& is_chosen) {
  std::size_t count = 0;
  for (const auto one : open_descriptors()) {
    const auto peer = peer_address(one);
    if (peer.size > 0 && is_internet(peer)
        && is_chosen(local_address(one), peer)
        && ::shutdown(one, SHUT_RDWR) == 0)
      ++count;
  }
  return count;
}

} // namespace troupe::net
