#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/placement.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

class communicator_channels;
class nccl_ranks;

/// The connected processes of a view of a job, as one of them sees the others.
/// Process 0 has the chief.
struct world {
  std::vector<std::string> names; ///< Names of the processes.
  local_placement placement;
  /// Control connections by process. Null: no connection to that process.
  std::vector<std::shared_ptr<net::connection>> connections;
  /// Runs the collectives between this process's replicas and those of other
  /// processes. Null: this process hosts no replica.
  std::shared_ptr<lane_backend> backend;
  /// Channels over which the processes set up NCCL. Null: they do not.
  std::shared_ptr<communicator_channels> device_channels;
  /// Add the sums of tensors on the devices of this process's replicas. Null:
  /// the tensors of all sums are on the host.
  std::shared_ptr<nccl_ranks> ranks;
  /// Number of the membership view of these processes.
  std::uint64_t view_id = 0;

  std::uint32_t processes() const { return placement.job.processes(); }
};

/// Numbers of the channels of a control connection. The numbers are a wire
/// format: never change one.
enum channel_id : std::uint32_t {
  // channel 0 is reserved for the connection
  chief_channel = 1,
  run_client_channel = 2,
  membership_channel = 3,
  view_change_channel = 4,
  result_channel = 5,
  packet_report_channel = 6,
  communicator_channel = 7,
  replica_channel = 16, ///< Replica r uses channel 16 + r.
};

/// Returns the number of a channel between two roles of a view. Each view has
/// channels of its own, so a message never reaches the roles of another view.
/// @param channel number of the channel in the first view.
constexpr std::uint32_t channel_of_view(std::uint64_t view_id,
                                        std::uint32_t channel) {
  constexpr std::uint32_t channels = 1u << 16; // per view
  static_assert(replica_channel + max_replicas <= channels);
  const auto later_views = view_id > 0 ? view_id - 1 : 0;
  return static_cast<std::uint32_t>(later_views % channels) * channels
         + channel;
}

} // namespace troupe
