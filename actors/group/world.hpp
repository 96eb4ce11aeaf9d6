#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/placement.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// The connected processes of a job. Process 0 is the leader. Every other
/// process has one control connection, to the leader.
struct world {
  std::vector<std::string> names; ///< Names of the processes.
  local_placement placement;
  /// By process. Null: this process has no connection to it.
  std::vector<std::shared_ptr<net::connection>> connections;
  /// Runs the collectives of this process's replicas with other processes.
  std::shared_ptr<lane_backend> backend;
  /// Number of the membership view that the rendezvous agreed on. It does not
  /// change in the life of the job.
  std::uint64_t view_id = 0;

  std::uint32_t processes() const { return placement.job.processes(); }
};

/// Channels of a connection between two processes of a job. The numbers are a
/// wire format.
enum channel_id : std::uint32_t {
  // channel 0 is reserved for the connection
  chief_channel = 1,
  run_client_channel = 2,
  membership_channel = 3,
  replica_channel = 16, ///< The id of the replica is added.
};

} // namespace troupe
