#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/net/shm/shm_arena.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::net {

/// Selects the transport of the lanes between two processes.
enum class lane_policy : std::uint8_t {
  /// Shared memory if the processes are on one host and can set it up, else
  /// streams.
  automatic,
  shm,    ///< Shared memory. If it is not available, `open_lanes` throws.
  stream, ///< The streams that were passed to `open_lanes`.
};

struct lane_options {
  lane_policy policy = lane_policy::automatic;
  /// True if this process dialed the streams, false if it accepted them.
  bool is_dialer = false;
  /// Name of the stream transport in reports: "tcp" or "tls".
  std::string stream_transport = "tcp";
  std::chrono::milliseconds handshake_timeout{5000};
  /// Packets that each direction of a lane holds, in [2, 256].
  std::uint32_t slots = 16;
  /// The notifier that all lanes of this process share. Null: a new one is
  /// created.
  std::shared_ptr<event_notifier> notifier{};
  /// Arena that holds the buffers that this process posts zero-copy. Null: all
  /// payloads are copied.
  std::shared_ptr<const shm_arena> arena{};
  /// Identity of this host, which is compared with the identity that the peer
  /// sends. Empty: the result of `host_identity()`.
  std::string host{};
};

/// Lanes between two processes that were opened together. Each serves one
/// purpose, such as the contributions to sums; the processes agree on the
/// purposes when they connect the streams.
struct lane_set {
  /// In the order of the streams that were passed to `open_lanes`.
  std::vector<std::unique_ptr<lane>> lanes;
  /// "shm", or the name of the stream transport.
  std::string transport;
  /// Reason why shared memory is not used although the policies of both
  /// processes allow it. Empty: shared memory is used, or a policy excludes it.
  std::string shm_unavailable_reason{};
};

/// Opens the lanes to a peer, which makes the same call. The call blocks while
/// the processes negotiate the transport over the first stream.
/// @param streams one for each lane, at least one and at most `max_lanes`. All
///                connect this process to that peer and are authenticated. Both
///                processes pass them in the same order of purposes.
/// @errors throws std::runtime_error with a sentence if the policies exclude
///         each other, if the processes pass different numbers of streams, if
///         required shared memory is not available, or if the peer disconnects
///         or does not reply within the timeout. Throws std::invalid_argument
///         if `slots` or the number of streams is out of range.
/// @cost one round trip for streams, four for shared memory.
lane_set open_lanes(std::vector<std::unique_ptr<stream>> streams,
                    const lane_options& options = {});

/// Returns the identity of this host: its boot id and the network namespace of
/// this process. Empty: it cannot be determined.
std::string host_identity();

} // namespace troupe::net
