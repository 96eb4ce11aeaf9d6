#pragma once

#include "troupe/actors/collectives/nccl/nccl_collectives.hpp"

#include <memory>
#include <utility>

namespace troupe {

/// The collectives of one replica with replicas on other devices: one replica's
/// view of the collectives of its rank.
class nccl_backend final : public collective_backend {
public:
  /// @param compute the stream whose work makes the replica's contributions.
  /// @pre the rank hosts the replica.
  nccl_backend(std::shared_ptr<nccl_collectives> rank, std::uint32_t replica,
               std::shared_ptr<device_stream> compute)
    : rank_{std::move(rank)}, replica_{replica}, compute_{std::move(compute)} {}

  void begin_generation(std::uint64_t generation) override {
    rank_->begin_generation(replica_, generation);
  }
  void begin_step(std::uint64_t step) override {
    rank_->begin_step(replica_, step);
  }
  void end_step() override { rank_->end_step(replica_); }
  bool is_current() const override { return rank_->is_current(replica_); }

  bool takes_device_tensors() const override { return true; }

  /// Does not use the permission to overwrite a contribution.
  void contribute(std::uint32_t bucket, const tensor& contribution,
                  const collective_options& options,
                  collective::output_placement) override {
    rank_->contribute(replica_, bucket, contribution, options, compute_);
  }
  void gather(std::uint32_t bucket, const tensor& contribution,
              const collective_options& options) override {
    rank_->gather(replica_, bucket, contribution, options);
  }

  wait_status wait(const wait_condition& condition, bool blocking) override {
    return rank_->wait(replica_, condition, blocking);
  }
  bool wakes() const override { return false; }
  std::optional<failure> last_failure() override {
    return rank_->last_failure();
  }

  tensor sum_of(std::uint32_t bucket) override {
    return rank_->sum_of(replica_, bucket);
  }
  tensors gathered(std::uint32_t bucket) override {
    return rank_->gathered(replica_, bucket);
  }
  std::optional<std::uint32_t> first_incomplete() override {
    return rank_->first_incomplete(replica_);
  }
  std::vector<std::uint32_t>
  missing(std::uint64_t step, const std::optional<wait_condition>&) override {
    return rank_->missing(step);
  }

private:
  std::shared_ptr<nccl_collectives> rank_;
  std::uint32_t replica_;
  std::shared_ptr<device_stream> compute_;
};

} // namespace troupe
