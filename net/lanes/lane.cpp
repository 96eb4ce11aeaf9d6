#include "troupe/net/lanes/lane.hpp"

#include <algorithm>
#include <ctime>

namespace troupe::net {

bool sleep_on(std::span<lane* const> lanes, std::chrono::nanoseconds most,
              std::vector<pollfd>& watched) {
  watched.clear();
  std::size_t asked = 0;
  bool news = false;
  while (!news && asked < lanes.size())
    news = !lanes[asked++]->before_sleep(watched);
  if (!news) {
    const auto ns = std::max<std::int64_t>(most.count(), 0);
    const timespec span{.tv_sec = ns / 1'000'000'000,
                        .tv_nsec = ns % 1'000'000'000};
    news = ::ppoll(watched.data(), watched.size(), &span, nullptr) > 0;
  }
  for (std::size_t i = 0; i < asked; ++i)
    lanes[i]->after_sleep();
  return news;
}

} // namespace troupe::net
