#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace troupe {

/// One code per *reaction*: add a code only where some caller will treat it
/// differently. Details for people go into the context. A code travels as its
/// number, so this order is a wire format: append, never reorder or reuse.
enum class ec : std::uint8_t {
  superseded = 1,  ///< A newer epoch or step took over; drop it and go on.
  protocol = 2,    ///< A peer broke the rules; run the step again without it.
  busy = 3,        ///< No room now; come back later.
  peer_lost = 4,   ///< Known to be dead; replace it.
  unreachable = 5, ///< Dead or cut off, nobody knows; fence it first.
  stalled = 6,     ///< Nobody died, nothing moves; probe those named.
  invalid = 7,     ///< The request can never work; mend it, do not repeat it.
  refused = 8,     ///< Not allowed; ask a person.
  cancelled = 9,   ///< Its owner stopped it; go home quietly.
  corrupt = 10,    ///< Bytes are not what was written; take another copy.
};

std::string to_string(ec x);

/// What the world did to a job, as those see it who use no actors.
struct failure : std::runtime_error {
  failure(ec code, const std::string& what)
    : std::runtime_error{what}, code{code} {}

  ec code;
};

} // namespace troupe
