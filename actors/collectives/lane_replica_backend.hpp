#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"

#include <memory>

namespace troupe {

/// The collectives of one replica with replicas of other processes: one
/// replica's view of the lane backend of its process.
class lane_replica_backend final : public collective_backend {
public:
  /// @pre the lane backend's process hosts the replica.
  lane_replica_backend(std::shared_ptr<lane_backend> lanes,
                       std::uint32_t replica)
    : lanes_{std::move(lanes)}, replica_{replica} {}

  void begin_generation(std::uint64_t generation) override {
    lanes_->begin_generation(replica_, generation);
  }
  void begin_step(std::uint64_t step) override {
    step_ = step;
    lanes_->begin_step(replica_, step);
  }
  void end_step() override { lanes_->end_step(replica_); }
  bool is_current() const override { return lanes_->is_current(replica_); }

  void contribute(std::uint32_t bucket, const tensor& contribution,
                  const collective_options& options,
                  collective::output_placement output) override {
    lanes_->contribute(replica_, bucket, contribution, options, output);
  }
  void gather(std::uint32_t bucket, const tensor& contribution,
              const collective_options& options) override {
    lanes_->gather(replica_, bucket, contribution, options);
  }

  wait_status wait(const wait_condition& condition, bool blocking) override {
    return lanes_->wait(replica_, condition, blocking);
  }
  bool wakes() const override { return !lanes_->blocks(); }
  std::optional<failure> last_failure() override;

  tensor sum_of(std::uint32_t bucket) override {
    return lanes_->sum_of(replica_, bucket);
  }
  tensors gathered(std::uint32_t bucket) override {
    return lanes_->gathered(replica_, bucket);
  }
  std::optional<std::uint32_t> first_incomplete() override {
    return lanes_->first_incomplete(replica_);
  }
  std::vector<std::uint32_t>
  missing(std::uint64_t step,
          const std::optional<wait_condition>& condition) override;

private:
  std::shared_ptr<lane_backend> lanes_;
  std::uint32_t replica_;
  std::uint64_t step_ = 0;
};

} // namespace troupe
