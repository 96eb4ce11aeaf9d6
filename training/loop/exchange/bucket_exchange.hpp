#pragma once

#include "troupe/training/loop/audit/parameter_audit.hpp"
#include "troupe/training/loop/exchange/buckets.hpp"
#include "troupe/training/loop/exchange/gradient_exchange.hpp"
#include "troupe/training/loop/model/copy_update.hpp"

#include <deque>

namespace troupe {

/// The exchange of a job of several processes or devices, in which each replica
/// has a copy of the parameters: all-reduce and local update. Each bucket of
/// gradients is reduced as soon as the backward pass has completed it, and each
/// replica updates its copy. The metrics of a step are gathered with the sums,
/// so its outcome is known in all processes.
///
/// The gradients of replicas on a device are copied to the host, and the sums
/// back, unless the backend takes tensors on the device. Such a backend leaves
/// the gradients on the device. When all sums are complete, they are copied
/// into the gradient buffer of the replica, and the device checks and applies
/// them.
class bucket_exchange final : public gradient_exchange {
public:
  /// Target size of a bucket in bytes.
  static constexpr std::size_t bucket_bytes = std::size_t{1} << 20;

  bucket_exchange(model_state& model, const step_rules& rules,
                  const trained_parameters& trained, std::size_t sums,
                  std::shared_ptr<parameter_audit> audit);

  bool contributes_in_backward_pass() const override { return true; }
  void begin(const replica_step& step) override;
  void on_gradient(const replica_step& step, std::size_t parameter) override;
  void begin_without_examples(const replica_step& step) override;
  outcome update(const replica_step& step) override;
  void end(const replica_step& step, std::uint64_t steps_done,
           bool is_stopped) override;
  void replace_copies(std::uint32_t source) override;

private:
  /// State of one replica.
  struct replica {
    tensor gradient;                      ///< [parameters::size()] float32
    tensor values;                        ///< [parameters::size()] float32
    std::optional<copy_update> update;    ///< Update of this replica's copy.
    std::vector<tensor> bucket_gradients; ///< Ranges of `gradient`.
    /// Memory of the host to which gradients on a device are copied, by bucket.
    /// Empty: they were not.
    std::vector<tensor> host_gradients;
    /// int32 [1], on the device of the gradient. Not 0: an element of the sums
    /// on that device is not finite.
    tensor is_not_finite;
    pooled<tensor> sums;
    /// [1 + number of sums] float64: examples and sums. With audits, the
    /// report of this replica's copy follows.
    tensor own_metrics;
    /// Reports of an audit, by replica of the job.
    std::vector<copy_report> reports;
    /// Metrics of the step, by replica of the job.
    std::vector<step_metrics> metrics;
    bucket_tracker tracker;
    bool updated = false; ///< The step has changed the copy.
    float rate = 0;       ///< Learning rate of that update.
  };

  void contribute(const replica_step& step, std::uint32_t bucket);
  /// Returns what the replica contributes to the sum of a bucket.
  tensor contribution(const replica_step& step, std::uint32_t bucket);
  /// True if the sums of the step are on a device.
  bool has_device_sums(const replica& self) const;
  /// Copies sums on a device into the gradient buffer, and checks them there.
  /// @returns false if an element is not finite.
  bool take_device_sums(replica& self) const;
  /// Gathers the metrics of all replicas.
  /// @returns false if the step has an audit, and the copies differ.
  bool gather_metrics(const replica_step& step);
  /// Waits for the sums. @returns false if an element is not finite.
  bool sum(const replica_step& step);
  void update_copy(replica& self, const rule_step& rule);
  /// Gives the update to the processes that follow.
  void publish(const replica_step& step, std::uint64_t steps_done);

  model_state& model_;
  const step_rules& rules_;
  /// Null: no audits.
  const std::shared_ptr<parameter_audit> audit_;
  std::vector<std::size_t> frozen_index_; ///< Numbers of frozen parameters.
  std::vector<element_range> frozen_ranges_;
  /// By bucket: the ranges of trained parameters in it.
  std::vector<std::vector<element_range>> update_ranges_;
  std::deque<replica> replicas_;
};

} // namespace troupe
