#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace troupe {

/// Error codes, one per *reaction*: add a code only where some caller treats it
/// differently. Details for people go into the context of the error. A code is
/// transmitted as its number, so the numbers are a wire format: append, never
/// reorder or reuse.
enum class ec : std::uint8_t {
  /// A newer generation or step replaced this one. Drop it and continue.
  superseded = 1,
  /// A peer violated the protocol. Run the step again without that peer.
  protocol = 2,
  /// The receiver has no capacity now. Retry later.
  busy = 3,
  /// The peer is known to have terminated. It can be replaced.
  peer_lost = 4,
  /// The peer is dead or disconnected; which of the two is unknown. Fence it
  /// before it is replaced.
  unreachable = 5,
  /// Every peer is alive, but no progress was made in time. Inspect the peers
  /// that the text names.
  stalled = 6,
  /// The request is invalid. Do not retry it.
  invalid = 7,
  /// The request is not permitted. It requires operator action.
  refused = 8,
  /// Cancelled by the owner. Stop without reporting an error.
  cancelled = 9,
  /// The bytes read differ from the bytes written. Use another copy.
  corrupt = 10,
};

/// @returns the name of the code, such as "peer_lost"; "?" for a number that
///          is not a code.
std::string to_string(ec x);

/// Runtime failure of a job, thrown to callers that use no actors.
struct job_error : std::runtime_error {
  job_error(ec code, const std::string& message)
    : std::runtime_error{message}, code{code} {}

  ec code;
};

} // namespace troupe
