#include "troupe/actors/collectives/nccl/nccl_ranks.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Returns how many devices of a process have replicas.
std::uint32_t used_devices(const placement& processes, std::uint32_t process,
                           std::size_t devices) {
  return static_cast<std::uint32_t>(
    std::min(processes.replicas_of(process).size(), devices));
}

} // namespace

placement placement_on_devices(const placement& processes,
                               std::uint32_t devices) {
  std::vector<placement::id_list> out;
  for (std::uint32_t p = 0; p < processes.processes(); ++p) {
    const auto& ids = processes.replicas_of(p);
    const auto first = out.size(),
               used = std::size_t{used_devices(processes, p, devices)};
    out.resize(first + used);
    for (std::size_t i = 0; i < ids.size(); ++i)
      out[first + i % used].push_back(ids[i]);
  }
  return placement{std::move(out)};
}

nccl_ranks::nccl_ranks(
  const local_placement& processes,
  const std::vector<std::shared_ptr<communication_device>>& devices,
  const std::shared_ptr<communicator_id_exchange>& ids,
  const std::shared_ptr<blocking_calls>& blocking, const nccl_options& options)
  : processes_{processes} {
  const auto each = static_cast<std::uint32_t>(devices.size());
  const auto ranks = placement_on_devices(processes.job, each);
  const auto first = ranks.process_of(processes.replicas().front());
  const auto used = used_devices(processes.job, processes.process, each);
  for (std::uint32_t d = 0; d < used; ++d)
    ranks_.push_back(std::make_shared<nccl_rank>(
      local_placement{ranks, first + d}, devices[d], ids, blocking, options));
}

const std::shared_ptr<nccl_rank>&
nccl_ranks::of_replica(std::uint32_t replica) const {
  return ranks_[processes_.job.index_of(replica) % ranks_.size()];
}

} // namespace troupe
