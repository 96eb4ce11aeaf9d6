#include "troupe/net/base/log_rate_limiter.hpp"

#include <utility>

namespace troupe::net {

void log_rate_limiter::operator()(severity level, const std::string& sentence) {
  if (!sink_)
    return;
  auto& counter = counters_.at(static_cast<std::size_t>(level));
  if (counter.emitted == max_per_second) {
    ++counter.suppressed;
    return;
  }
  ++counter.emitted;
  sink_(level, printable(sentence));
}

void log_rate_limiter::tick(clock::time_point now) {
  if (now - since_ < std::chrono::seconds{1})
    return;
  since_ = now;
  for (const auto level : {severity::info, severity::warning})
    if (const auto before =
          std::exchange(counters_.at(static_cast<std::size_t>(level)), {});
        before.suppressed > 0)
      (*this)(level, std::to_string(before.suppressed)
                       + " further messages were suppressed");
  if (const auto n = std::exchange(evicted_, 0); n > 0)
    (*this)(severity::warning,
            std::to_string(n)
              + " connections were evicted by newer ones before their "
                "handshake was complete");
}

} // namespace troupe::net
