#include "troupe/training/strategies/local_group.hpp"

#include "troupe/actors/collectives/nccl/nccl_setup.hpp"
#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/group/respawning_group.hpp"

#include <utility>

namespace troupe {

std::unique_ptr<replica_group>
make_local_group(runtime& local_runtime, const replica_group_options& options,
                 device_sum_options sums) {
  const auto nccl = std::make_shared<nccl_setup>(std::move(sums));
  return make_respawning_group([&local_runtime, options, nccl] {
    return make_replica_group(
      local_runtime, options,
      nccl->make_for_one_process(options.replicas, options.step_timeout));
  });
}

} // namespace troupe
