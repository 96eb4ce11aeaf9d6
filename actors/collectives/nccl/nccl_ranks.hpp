#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"
#include "troupe/actors/collectives/nccl/nccl_rank.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// Places replicas on devices: those of a process take its devices in turn. In
/// the result, a "process" is a device with replicas, which is a rank of a
/// communicator. The devices of a process follow those of the one before it.
/// @param devices of each process; at least 1.
placement placement_on_devices(const placement& processes,
                               std::uint32_t devices);

/// The ranks of this process: one for each of its devices that has replicas.
class nccl_ranks {
public:
  /// @param processes the placement of the replicas on processes.
  /// @param devices   of this process; all processes have equally many.
  /// @pre this process hosts replicas.
  /// @errors throws device_error.
  nccl_ranks(const local_placement& processes,
             const std::vector<std::shared_ptr<communication_device>>& devices,
             const std::shared_ptr<communicator_id_exchange>& ids,
             const std::shared_ptr<blocking_calls>& blocking,
             const nccl_options& options);

  /// Returns the rank that has a replica of this process.
  const std::shared_ptr<nccl_rank>& of_replica(std::uint32_t replica) const;

private:
  const local_placement processes_;
  std::vector<std::shared_ptr<nccl_rank>> ranks_;
};

} // namespace troupe
