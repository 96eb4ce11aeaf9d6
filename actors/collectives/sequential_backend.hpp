#pragma once

#include "troupe/actors/collectives/collective_backend.hpp"
#include "troupe/strategies/tree/call_order.hpp"
#include "troupe/strategies/tree/reduction.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace troupe {

/// The collectives of the current step among replicas that run in turn on one
/// thread. The replicas share it.
class sequential_collectives {
public:
  explicit sequential_collectives(std::uint32_t replicas)
    : replicas_{replicas}, next_call_(replicas) {}

  std::uint32_t replicas() const { return replicas_; }

  void begin_step(std::uint64_t generation, std::uint64_t step);
  /// Releases the contributions and the sums.
  void end_step();

  /// @errors throws std::logic_error if the replica already contributed, or if
  ///         the contributions do not match.
  void contribute(std::uint32_t bucket, std::uint32_t replica,
                  const tensor& contribution,
                  const collective_options& options);
  /// @errors as `contribute`. Both functions also throw if another replica
  ///         called a different collective at the same place of the step.
  void gather(std::uint32_t bucket, std::uint32_t replica,
              const tensor& contribution, const collective_options& options);

  /// @errors throws std::logic_error if the replica did not contribute to the
  ///         bucket.
  const tensor& sum_of(std::uint32_t bucket, std::uint32_t replica) const;
  /// Returns null while tensors are missing.
  const tensors* gathered(std::uint32_t bucket) const;
  std::optional<std::uint32_t> first_incomplete(std::uint32_t replica) const;
  std::vector<std::uint32_t> missing_in_sum(std::uint32_t bucket) const;
  std::vector<std::uint32_t> missing_in_gather(std::uint32_t bucket) const;
  /// Returns the first bucket to which only some replicas have contributed.
  std::optional<std::uint32_t> first_incomplete_bucket() const;

  /// Number of contributions so far. Each may let another replica continue.
  std::uint64_t progress() const { return progress_; }

private:
  struct pending_sum {
    std::uint32_t bucket = 0;
    tree::reduction reduction;
    tensor sum{}; ///< Empty until the sum is complete.
    bool has(std::uint32_t replica) const { return reduction.has(replica); }
  };
  struct pending_gather {
    std::uint32_t bucket = 0;
    std::uint32_t arrived = 0;
    tensors contributions; ///< By replica. Empty tensor: not contributed yet.
  };

  void compare_call(tree::collective_call call);
  const pending_sum* find_sum(std::uint32_t bucket) const;
  const pending_gather* find_gather(std::uint32_t bucket) const;

  std::uint32_t replicas_;
  std::uint64_t generation_ = 0, step_ = 0;
  pooled<pending_sum> sums_;
  pooled<pending_gather> gathers_;
  /// The k-th call in the step of the replica that made it first, by k.
  pooled<tree::collective_call> calls_;
  /// Index of the next call of each replica in the step.
  pooled<std::uint32_t> next_call_;
  std::uint64_t progress_ = 0;
};

/// The collectives of one of several replicas that run in turn on one thread.
/// The replica that contributes last adds.
class sequential_backend final : public collective_backend {
public:
  sequential_backend(std::shared_ptr<sequential_collectives> shared,
                     std::uint32_t replica)
    : shared_{std::move(shared)}, replica_{replica} {}

  void begin_generation(std::uint64_t) override {}
  void begin_step(std::uint64_t) override {}
  void end_step() override {}

  void contribute(std::uint32_t bucket, const tensor& contribution,
                  const collective_options& options,
                  collective::output_placement) override {
    shared_->contribute(bucket, replica_, contribution, options);
  }
  void gather(std::uint32_t bucket, const tensor& contribution,
              const collective_options& options) override {
    shared_->gather(bucket, replica_, contribution, options);
  }

  wait_status wait(const wait_condition& condition, bool blocking) override;
  bool wakes() const override { return false; }
  std::optional<failure> last_failure() override { return std::nullopt; }

  tensor sum_of(std::uint32_t bucket) override {
    return shared_->sum_of(bucket, replica_);
  }
  tensors gathered(std::uint32_t bucket) override;
  std::optional<std::uint32_t> first_incomplete() override {
    return shared_->first_incomplete(replica_);
  }
  std::vector<std::uint32_t>
  missing(std::uint64_t step,
          const std::optional<wait_condition>& condition) override;

private:
  std::shared_ptr<sequential_collectives> shared_;
  std::uint32_t replica_;
};

} // namespace troupe
