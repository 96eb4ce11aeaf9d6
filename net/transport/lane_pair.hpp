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

/// What lanes between two processes are made of.
enum class lane_policy : std::uint8_t {
  automatic, ///< Shared memory on one host, if it can be had; else streams.
  shm,       ///< Shared memory, or it is an error.
  stream,    ///< What was dialed.
};

struct channel_options {
  lane_policy policy = lane_policy::automatic;
  bool dialed = false;      ///< This side did; the other accepted.
  std::string over = "tcp"; ///< What the streams are, for reports: "tls".
  std::chrono::milliseconds patience{5000};
  std::uint32_t slots = 16;        ///< Parcels that a lane holds, [2, 256].
  std::shared_ptr<bell> my_bell{}; ///< Of the process. None: one of its own.
  /// Where what this process lends lies. None: all that is sent is copied.
  std::shared_ptr<const shm_arena> my_arena{};
  /// What one host's processes have in common. Empty: found out.
  std::string host{};
};

/// The lanes between two processes.
struct channel {
  std::unique_ptr<lane> parts, sums;
  std::string transport;    ///< "shm", or what the streams are.
  std::string why_no_shm{}; ///< If it was wanted here and could not be had.
};

/// Agrees with the other side, which does the same, on what the lanes are made
/// of; blocks. The streams connect the same two processes and are
/// authenticated.
/// @errors throws std::runtime_error with a sentence: the policies differ,
///         shared memory was insisted on and cannot be had, or the peer went
///         away or was silent for the patience. std::invalid_argument for slots
///         out of range.
/// @cost four round trips for shared memory, else one.
channel open_channel(std::unique_ptr<stream> parts,
                     std::unique_ptr<stream> sums,
                     const channel_options& options = {});

/// This host as its processes see it: its boot, and their network namespace.
/// Empty if it cannot be told.
std::string host_identity();

} // namespace troupe::net
