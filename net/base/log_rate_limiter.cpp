#include "troupe/net/base/log_rate_limiter.hpp"

#include <utility>

namespace troupe::net {

void log_limiter::operator()(severity how, const std::string& sentence) {
  if (!to_)
    return;
  auto& of = of_.at(static_cast<std::size_t>(how));
  if (of.said == most_per_second) {
    ++of.unsaid;
    return;
  }
  ++of.said;
  to_(how, printable(sentence));
}

void log_limiter::tick(clock::time_point now) {
  if (now - since_ < std::chrono::seconds{1})
    return;
  since_ = now;
  for (const auto how : {severity::info, severity::warning})
    if (const auto before =
          std::exchange(of_.at(static_cast<std::size_t>(how)), {});
        before.unsaid > 0)
      (*this)(how, std::to_string(before.unsaid)
                     + " further messages were suppressed");
  if (const auto n = std::exchange(pushed_out_, 0); n > 0)
    (*this)(severity::warning,
            std::to_string(n)
              + " connections were evicted by newer ones before their "
                "handshake was complete");
}

} // namespace troupe::net
