#pragma once

#include "troupe/actors/collectives/nccl/nccl_collectives.hpp"
#include "troupe/actors/collectives/nccl/nccl_watchdog.hpp"

#include <memory>

namespace troupe {

/// The objects that the replicas on one device share while NCCL adds their
/// sums: a rank of the communicators, its watchdog and the compute stream.
class nccl_rank {
public:
  /// @param ranks the placement of the replicas on ranks, as for
  ///        `nccl_collectives`.
  /// @errors throws device_error.
  nccl_rank(const local_placement& ranks,
            const std::shared_ptr<communication_device>& device,
            std::shared_ptr<communicator_id_exchange> ids,
            std::shared_ptr<blocking_calls> blocking,
            const nccl_options& options);

  /// Time between two looks of the watchdog at the collectives.
  static constexpr std::chrono::milliseconds watchdog_interval{1};

  const std::shared_ptr<nccl_collectives>& collectives() const {
    return collectives_;
  }
  /// The stream in which the replicas compute.
  const std::shared_ptr<device_stream>& compute() const { return compute_; }

private:
  std::shared_ptr<nccl_collectives> collectives_;
  std::shared_ptr<device_stream> compute_;
  nccl_watchdog watchdog_;
};

} // namespace troupe
