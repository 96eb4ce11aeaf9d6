#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Error code of a failure. Each code stands for one reaction: add a code only
/// if some caller reacts to it differently. Details for people go into the
/// error text. Processes send a code to each other as its number: append new
/// codes, never change or reuse a number.
enum class ec : std::uint8_t {
  /// The generation or step of this work was replaced by a newer one. Drop the
  /// work and continue.
  superseded = 1,
  /// A peer violated the protocol. Run the step again without that peer.
  protocol = 2,
  /// The receiver has no capacity now. Retry later.
  busy = 3,
  /// The peer is known to have terminated. It can be replaced.
  peer_lost = 4,
  /// The peer does not respond: it is dead or only disconnected. Make sure that
  /// it is dead (fence it) before you replace it.
  unreachable = 5,
  /// Every peer is alive, but no progress was made in time. Inspect the peers
  /// that the error text names.
  stalled = 6,
  /// The request is invalid. Do not retry it.
  invalid = 7,
  /// The request is not permitted. It requires operator action.
  refused = 8,
  /// The owner cancelled the work. Stop without reporting an error.
  cancelled = 9,
  /// The bytes read differ from the bytes written. Read another copy of the
  /// data.
  corrupt = 10,
};

/// Returns the name of the code, such as "peer_lost", or "?" for a number that
/// is not a code.
std::string to_string(ec x);

} // namespace troupe
