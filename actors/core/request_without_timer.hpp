#pragma once

#include <caf/duration.hpp>

#include <utility>

namespace troupe {

/// Sends a request for which CAF keeps no timer. CAF keeps the timer of a
/// request until its timeout, also after the answer, and wakes a thread for
/// each. That is too much for many requests with long timeouts.
/// @pre the receiver answers each request in bounded time, as a proxy does at
/// its
///      timeout.
template <class Self, class Target, class... Ts>
auto request_without_timer(Self* self, const Target& to, Ts&&... xs) {
  return self->request(to, caf::infinite, std::forward<Ts>(xs)...);
}

} // namespace troupe
