#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// The processes that a crew is in, and how they speak to each other. Process 0
/// leads: it has a connection to each, all others have one to it.
struct company {
  commit::places where; ///< Names, and who holds which replicas.
  std::uint32_t me = 0;
  /// By process; those that this one has no connection to are null.
  std::vector<std::shared_ptr<net::connection>> wires;
  std::shared_ptr<data_plane> plane; ///< Sums over processes.
  std::uint64_t epoch = 0;           ///< Of the membership.

  std::uint32_t processes() const {
    return static_cast<std::uint32_t>(where.names.size());
  }
};

/// What roles speak on which channel of a connection. The numbers are a wire
/// format.
enum channel : std::uint32_t {
  // 0 is the connection's own
  chief_channel = 1,
  caller_channel = 2,
  membership_channel = 3,
  replica_channel = 16, ///< Plus the replica's id.
};

} // namespace troupe
