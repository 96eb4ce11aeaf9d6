#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"
#include "troupe/actors/group/replica_group.hpp"

#include <memory>

namespace troupe {

class runtime;

/// Makes the group of a job of one process. Its actors are made again if one of
/// them ends, or NCCL fails.
/// @param sums how sums of tensors on the devices of the replicas are added.
/// @errors throws std::invalid_argument for invalid options, and if NCCL is
///         required and cannot be used.
std::unique_ptr<replica_group>
make_local_group(runtime& local_runtime, const replica_group_options& options,
                 device_sum_options sums);

} // namespace troupe
