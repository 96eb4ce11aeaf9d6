#pragma once

#include "troupe/actors/group/replica_group.hpp"

#include <memory>

namespace troupe {

class nccl_ranks;
class runtime;

/// Makes a group in which each replica is an actor on a thread of its own, and
/// a chief commits the steps. The runtime must outlive the group.
/// @param ranks add the sums of tensors on the devices of the replicas. Null:
///        the tensors of all sums are on the host.
/// @errors throws std::invalid_argument for invalid options.
std::unique_ptr<replica_group>
make_replica_group(runtime& actor_runtime, const replica_group_options& options,
                   std::shared_ptr<nccl_ranks> ranks = nullptr);

} // namespace troupe
