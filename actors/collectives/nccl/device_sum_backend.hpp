#pragma once

#include "troupe/actors/collectives/collective_backend.hpp"
#include "troupe/actors/collectives/nccl/nccl_backend.hpp"
#include "troupe/actors/collectives/nccl/nccl_rank.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// The collectives of a replica on a device. NCCL adds the sums of tensors on
/// the device, and a backend of the host does all else. The host uses lanes in
/// a job of several processes, and memory otherwise.
///
///   who      one replica. Its device has a rank
///   sums     of float32 and float64 tensors on the device: by NCCL. The
///            tensors of other sums must be on the host
///   gathers  by the host. So are the metrics and the barriers of a step, with
///            which a replica notices that another one is missing
///   start    the communicator of a generation is made for its first sum on
///            devices. A generation without such a sum has none. The first
///            groups of a generation start when the replica waits for a sum.
///            In `fit` it has waited for the metrics of all others then, so all
///            have launched the kernels of their backward passes
///   wait     for all collectives of a step: those of both kinds
///   faults   lanes notice a lost peer, also while the replica waits for NCCL,
///            and the replica reports it to the chief. When the replica
///            leaves the step, because the chief begins another generation,
///            the communicator is aborted
class device_sum_backend final : public collective_backend {
public:
  /// @param host backend of this replica.
  /// @pre the rank has the replica.
  device_sum_backend(std::shared_ptr<collective_backend> host,
                     std::shared_ptr<nccl_rank> rank, std::uint32_t replica);

  void begin_generation(std::uint64_t generation) override;
  void begin_step(std::uint64_t step) override;
  void end_step() override;
  bool is_current() const override;

  bool takes_device_tensors() const override { return true; }
  void contribute(std::uint32_t bucket, const tensor& contribution,
                  const collective_options& options,
                  collective::output_placement output) override;
  void gather(std::uint32_t bucket, const tensor& contribution,
              const collective_options& options) override;

  wait_status wait(const wait_condition& condition, bool blocking) override;
  /// NCCL sends no message when a sum is complete.
  bool wakes() const override { return !has_open_sums_ && host_->wakes(); }
  std::optional<failure> last_failure() override;

  tensor sum_of(std::uint32_t bucket) override;
  tensors gathered(std::uint32_t bucket) override;
  std::optional<std::uint32_t> first_incomplete() override;
  std::vector<std::uint32_t>
  missing(std::uint64_t step,
          const std::optional<wait_condition>& condition) override;

  bool serve() override { return host_->serve(); }
  bool park() override { return host_->park(); }
  void deliver(tensor_message&& message) override;

private:
  void join_generation();
  bool is_on_device(std::uint32_t bucket) const;
  wait_status wait_for_device_sum(const wait_condition& condition,
                                  bool blocking);
  wait_status wait_for_host(const wait_condition& condition, bool blocking);
  wait_status wait_for_all(const wait_condition& condition, bool blocking);

  const std::shared_ptr<collective_backend> host_;
  std::shared_ptr<nccl_rank> rank_;
  nccl_backend devices_;
  std::uint64_t generation_ = 0, step_ = 0;
  bool has_joined_ = false; ///< The generation has a sum on devices.
  std::vector<std::uint32_t> device_buckets_; ///< Buckets of the step.
  /// Sums on devices were incomplete at the last wait for the host, or one was
  /// added since.
  bool has_open_sums_ = false;
};

} // namespace troupe
