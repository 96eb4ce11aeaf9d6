#include "troupe/net/log_limiter.hpp"

#include <algorithm>
#include <utility>

namespace troupe::net {

void log_limiter::operator()(severity how, const std::string& sentence) {
  if (!to_)
    return;
  if (said_ == most_per_second) {
    ++unsaid_;
    worst_ = std::max(worst_, how);
    return;
  }
  ++said_;
  to_(how, printable(sentence));
}

void log_limiter::tick(clock::time_point now) {
  if (now - since_ < std::chrono::seconds{1})
    return;
  since_ = now;
  said_ = 0;
  if (const auto n = std::exchange(unsaid_, 0); n > 0)
    (*this)(std::exchange(worst_, severity::info),
            std::to_string(n) + " more sentences like these were left out");
  if (const auto n = std::exchange(pushed_out_, 0); n > 0)
    (*this)(severity::warning,
            std::to_string(n)
              + " connections did not finish their handshake and were pushed "
                "out by others");
}

std::string printable(const std::string& text) {
  constexpr std::size_t most = 300;
  auto x = text.size() > most ? text.substr(0, most) + "..." : text;
  std::ranges::replace_if(
    x, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return x;
}

} // namespace troupe::net
