#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/net/shm/shm_arena.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace troupe::net {

/// Transport of the lanes between two processes.
enum class lane_policy : std::uint8_t {
  /// Shared memory if both processes are on one host and it is available; else
  /// streams.
  automatic,
  shm,    ///< Shared memory; an error if it is not available.
  stream, ///< The streams that were dialed.
};

struct lane_options {
  lane_policy policy = lane_policy::automatic;
  /// True if this side dialed; the other accepted.
  bool is_dialer = false;
  /// Name of the stream transport in reports: "tcp" or "tls".
  std::string stream_transport = "tcp";
  std::chrono::milliseconds handshake_timeout{5000};
  std::uint32_t slots = 16; ///< Packets that a lane holds, in [2, 256].
  /// The notifier that all lanes of the process share. Null: a new one.
  std::shared_ptr<event_notifier> notifier{};
  /// Arena with the buffers that this process posts zero-copy. Null: all
  /// payloads are copied.
  std::shared_ptr<const shm_arena> arena{};
  /// Identity of this host, compared with the peer's. Empty: `host_identity()`.
  std::string host{};
};

/// The two lanes between two processes, one for contributions and one for
/// results.
struct lane_pair {
  std::unique_ptr<lane> contributions, results;
  /// "shm", or the name of the stream transport.
  std::string transport;
  /// Reason why there is no shared memory although the policies allow it.
  /// Empty: none.
  std::string shm_unavailable_reason{};
};

/// Opens the lanes after a negotiation with the other side, which makes the
/// same call; blocks. The streams connect the same two processes and are
/// authenticated.
/// @errors throws std::runtime_error with a sentence: the policies differ,
///         shared memory is required and not available, or the peer
///         disconnected or did not reply within the timeout.
///         std::invalid_argument for slots out of range.
/// @cost four round trips for shared memory, else one.
lane_pair open_lanes(std::unique_ptr<stream> contributions,
                     std::unique_ptr<stream> results,
                     const lane_options& options = {});

/// Identity of this host: its boot id and the network namespace of this
/// process. Empty if it cannot be determined.
std::string host_identity();

} // namespace troupe::net
