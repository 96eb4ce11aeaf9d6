#pragma once

#include "troupe/actors/collectives/collective_backend.hpp"
#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/strategies/tree/participant.hpp"
#include "troupe/strategies/tree/slice_reducers.hpp"

#include <chrono>
#include <memory>

namespace troupe {

/// Options of a local backend.
struct local_backend_options {
  std::uint32_t replica = 0;  ///< Id of the replica.
  std::uint32_t replicas = 1; ///< Number of replicas, all in this process.
  /// Number of this replica's actor among the actors with its id.
  std::uint32_t incarnation = 1;
  /// Number of reducer actors. Zero: the replicas reduce slices themselves.
  std::uint32_t reducers = 0;
  /// Time for which `wait` polls before it returns `pending`.
  std::chrono::microseconds spin_timeout{0};
};

/// The collectives of one replica with other replicas of the same process.
/// Tensors are passed by reference (strategies/tree/reduction.hpp). Slices of a
/// bucket are added in parallel, by the replicas while they wait or by reducer
/// actors.
class local_backend final : public collective_backend {
public:
  /// @param transport to the replicas and reducers of this process.
  /// @param faults    fault injector. Null: none.
  local_backend(const local_backend_options& options,
                std::shared_ptr<local_transport> transport,
                std::shared_ptr<fault_injector> faults);

  void begin_generation(std::uint64_t generation) override;
  void begin_step(std::uint64_t step) override;
  void end_step() override {}

  void contribute(std::uint32_t bucket, const tensor& contribution,
                  const collective_options& options,
                  collective::output_placement output) override;
  void gather(std::uint32_t bucket, const tensor& contribution,
              const collective_options& options) override;

  wait_status wait(const wait_condition& condition, bool blocking) override;
  bool wakes() const override { return true; }
  std::optional<failure> last_failure() override { return failure_; }

  tensor sum_of(std::uint32_t bucket) override;
  tensors gathered(std::uint32_t bucket) override;
  std::optional<std::uint32_t> first_incomplete() override;
  std::vector<std::uint32_t>
  missing(std::uint64_t step,
          const std::optional<wait_condition>& condition) override;

  bool serve() override;
  bool park() override;
  void deliver(tensor_message&& message) override;

private:
  void drain_queue();
  void check_order();
  bool reduce_some(std::uint32_t bucket);
  bool holds(const wait_condition& condition);

  local_backend_options options_;
  std::shared_ptr<local_transport> transport_;
  message_sender sender_;
  std::uint64_t generation_ = 0, step_ = 0;
  tree::participant participant_; ///< Sums and gathers of this replica.
  tree::slice_reducers reducers_; ///< Slices that this replica reduces.
  std::optional<failure> failure_;
};

} // namespace troupe
