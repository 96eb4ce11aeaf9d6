#pragma once

#include <caf/duration.hpp>

#include <utility>

namespace troupe {

/// Sends a request for which CAF keeps no timer. CAF keeps the timer of a
/// request until its timeout, also after the answer, and wakes a thread for
/// each. An actor that sends many requests with long timeouts uses this
/// function, and has a deadline of its own.
/// @pre the caller does not depend on an answer after its deadline, or the
///      receiver has a deadline, as a proxy does.
template <class Self, class Target, class... Ts>
auto request_without_timer(Self* self, const Target& to, Ts&&... xs) {
  return self->request(to, caf::infinite, std::forward<Ts>(xs)...);
}

} // namespace troupe
