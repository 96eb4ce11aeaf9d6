#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_claims.hpp"
#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"
#include "troupe/actors/collectives/nccl/nccl_ranks.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// Makes the ranks of this process for each view of its job, as long as NCCL
/// works here. A job of one process has a view for each time that its actors
/// are made. From the first view on, no other setup of this process uses the
/// devices.
class nccl_setup {
public:
  explicit nccl_setup(device_sum_options options);

  const device_sum_options& options() const { return options_; }

  struct result {
    device_offer offer; ///< Offer of this process.
    /// Null: the process offers no device. It has none, another setup uses one
    /// of its devices, or a call of CUDA has failed. Also null if NCCL has
    /// failed in an earlier view and is not required.
    std::shared_ptr<nccl_ranks> ranks;
  };
  /// Makes the ranks of a view. They are made before the offer is sent, so that
  /// the other processes hear of a failure of CUDA.
  /// @errors throws device_lost.
  /// @param processes the placement of the replicas on processes.
  result make(const local_placement& processes,
              const std::shared_ptr<communicator_id_exchange>& ids,
              std::chrono::milliseconds step_timeout);

  /// Makes the ranks of a job of one process. Null: the host adds the sums,
  /// which the log says.
  /// @errors throws std::invalid_argument if NCCL is required, and cannot be
  ///         used in the first view.
  std::shared_ptr<nccl_ranks>
  make_for_one_process(std::uint32_t replicas,
                       std::chrono::milliseconds step_timeout);

private:
  /// Why this process does not use NCCL any more.
  struct failure {
    std::mutex lock;
    std::string text; ///< Empty: it uses NCCL if all others can.

    void set(const std::string& cause);
  };
  nccl_options options_of_ranks(std::chrono::milliseconds step_timeout) const;

  const device_sum_options options_;
  device_claims claims_;
  /// Shared with the ranks. Its destructor waits for the calls.
  const std::shared_ptr<threaded_blocking_calls> blocking_ =
    std::make_shared<threaded_blocking_calls>();
  bool has_begun_ = false; ///< The job of one process has had a view.
  /// Shared with the ranks.
  const std::shared_ptr<failure> failure_ = std::make_shared<failure>();
};

} // namespace troupe
