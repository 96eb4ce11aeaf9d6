#pragma once

#include "troupe/training/loop/exchange/device_update.hpp"
#include "troupe/training/loop/exchange/gradient_exchange.hpp"
#include "troupe/training/loop/exchange/host_copies.hpp"

#include <exception>
#include <mutex>

namespace troupe {

/// The exchange of a job of one process, whose replicas share one copy of the
/// parameters on a device:
///
///   who      the R replicas of the job
///   start    each replica has given its forward and backward pass to the
///            device, and calls `update`, where it waits at a barrier. So an
///            abort before changes nothing
///   update   the replica that comes first gives to the device: the additions
///            of the gradients, the check of losses and sums, the copies of
///            losses and outputs to the CPU, and the update, which the device
///            skips if the check has failed. Then it waits once, for the
///            copies, and computes the metrics of all replicas. The device
///            makes the update meanwhile
///   end      a second barrier in `end`. After it, the next step may begin
///   faults   a label that is out of range makes the loss NaN, so no update is
///            made, and all replicas throw the error. If a metric throws, the
///            update was made; see `outcome::error`
///   cost     one wait for the device, and two barriers
///   order    the bits do not depend on which replica comes first
class device_exchange final : public gradient_exchange {
public:
  device_exchange(model_state& model, const step_rules& rules,
                  const trained_parameters& trained, std::size_t sums);

  bool contributes_in_backward_pass() const override { return false; }
  bool reports_in_update() const override { return true; }
  bool supports_graphs() const override { return true; }
  void begin(const replica_step& /*step*/) override {}
  void on_gradient(const replica_step& /*step*/,
                   std::size_t /*parameter*/) override {}
  void begin_without_examples(const replica_step& step) override;
  outcome update(const replica_step& step) override;
  void end(const replica_step& step, std::uint64_t steps_done,
           bool is_stopped) override;

private:
  /// @returns the learning rate of the step.
  float wait_for_gradients(step_context& step);
  void make_update(const replica_step& step, float rate);
  /// Sets the metrics of all replicas.
  void report();

  const model_state& model_;
  const step_rules& rules_;
  const std::vector<element_range> trained_;
  const std::size_t sums_;

  std::mutex lock_; ///< Guards the following members.
  device_update update_;
  host_copies copies_;
  std::vector<const replica_step*> steps_; ///< By replica.
  std::vector<step_results> results_;      ///< By replica, on the CPU.
  std::vector<step_metrics> metrics_;      ///< By replica.
  bool is_made_ = false; ///< A replica has made the update of the step.
  bool is_finite_ = true;
  std::exception_ptr failure_; ///< No update was made.
  std::exception_ptr error_;   ///< The update was made.
};

} // namespace troupe
