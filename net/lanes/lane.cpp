#include "troupe/net/lanes/lane.hpp"

#include <algorithm>
#include <ctime>

namespace troupe::net {

bool wait_any(std::span<lane* const> lanes, std::chrono::nanoseconds timeout,
              std::vector<pollfd>& watched, int wake_descriptor) {
  watched.clear();
  if (wake_descriptor >= 0)
    watched.push_back({.fd = wake_descriptor, .events = POLLIN, .revents = 0});
  std::size_t armed = 0;
  bool ready = false;
  while (!ready && armed < lanes.size())
    ready = !lanes[armed++]->arm(watched);
  if (!ready) {
    const auto timeout_ns = std::max<std::int64_t>(timeout.count(), 0);
    const timespec span{.tv_sec = timeout_ns / 1'000'000'000,
                        .tv_nsec = timeout_ns % 1'000'000'000};
    ready = ::ppoll(watched.data(), watched.size(), &span, nullptr) > 0;
  }
  for (std::size_t i = 0; i < armed; ++i)
    lanes[i]->disarm();
  return ready;
}

} // namespace troupe::net
