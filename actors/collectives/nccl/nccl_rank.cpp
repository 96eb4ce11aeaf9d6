#include "troupe/actors/collectives/nccl/nccl_rank.hpp"

#include <utility>

namespace troupe {

nccl_rank::nccl_rank(const local_placement& ranks,
                     const std::shared_ptr<communication_device>& device,
                     std::shared_ptr<communicator_id_exchange> ids,
                     std::shared_ptr<blocking_calls> blocking,
                     const nccl_options& options)
  : collectives_{std::make_shared<nccl_collectives>(
    ranks, device, std::move(ids), std::move(blocking), options)},
    compute_{device->compute_stream()},
    watchdog_{collectives_, watchdog_interval} {}

} // namespace troupe
