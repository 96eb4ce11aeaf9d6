#pragma once

#include "troupe/strategies/audit_vote.hpp"
#include "troupe/training/loop/audit/state_snapshot.hpp"
#include "troupe/training/loop/options/fit_options.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Compares the copies of the parameters and of the optimizer's slots in some
/// steps of a fit (docs/protocols/audit.md):
///
///   who       all replicas of a job with several copies, and `fit`
///   when      in the first step of a run, in each step whose number is a
///             multiple of `fit_options::audit_steps`, and when a run has ended
///   messages  a hash of its copy, in the values that each replica gathers
///             with the metrics of the step; at the end of a run in the gather
///             that ends it
///   agree     all hashes are equal: with `on_deviation::heal`, each process
///             takes a snapshot before the update of the step
///   deviate   no replica makes the update, and `fit` ends the run. The copies
///             vote, so that the one that deviates is named
///   cost      one read of a copy for each replica, one copy of the state for
///             each process, and no message of its own; allocates no memory
///             after the first snapshot
///   order     all replicas decide from the same reports
///   faults    a process that knows of a deviation tells it in the first step
///             of the next view, because the copy that deviates may be lost
class parameter_audit {
public:
  /// Number of values in the report of a replica.
  static constexpr std::size_t report_values = 4;

  /// @pre `options.audit_steps` is not 0.
  parameter_audit(const model_state& model, const fit_options& options);

  // The functions up to `read_report` are called by the thread of `fit` while
  // no step runs.

  /// Discards a snapshot that was not taken before this step, so that `fit`
  /// never returns to an earlier epoch.
  void begin_epoch(std::uint64_t step);

  /// The next step of the replicas is `first`.
  /// @param is_new_view the copies of this process were made from its first
  ///        one.
  /// @param is_received this process has received the state from another one.
  void begin_run(std::uint64_t first, bool is_new_view, bool is_received);

  /// Returns the reports of this process's replicas after a run, without
  /// their process. Empty if the replicas of the job share one copy.
  /// @param is_new_view, is_received as in `begin_run`, since that run.
  /// @cost one read of the copies.
  std::vector<copy_report> reports(bool is_new_view, bool is_received) const;

  /// Compares the copies when a run has ended.
  /// @param step number of steps that the model has made.
  /// @param has_state false: this process has no copy that could be kept.
  void judge_end(std::uint64_t step, std::span<const copy_report> reports,
                 bool has_state);

  /// A sentence that names the copy that deviates and the steps in which that
  /// may have happened. Empty: all audits since `clear` have agreed.
  std::string deviation() const;
  /// Forgets the deviation.
  void clear();

  state_snapshot& snapshot() { return snapshot_; }

  /// Returns true if the copies are compared before the update of a step.
  bool is_due(std::uint64_t step) const {
    return step == first_ || step % interval_ == 0;
  }
  /// Returns true if the copies have differed before the update of this step or
  /// of an earlier one. Any thread may call it.
  bool deviates_at(std::uint64_t step) const { return step >= deviates_at_; }
  /// Step of the last audit that has agreed. Any thread may call it.
  std::uint64_t last_agreed() const { return last_agreed_; }

  /// Reads what another replica has written.
  static copy_report read_report(std::uint32_t replica,
                                 std::span<const double> values);

  // A replica calls the following functions in a step in which `is_due`.

  /// Writes the report of a replica.
  /// @param index of the replica in this process.
  /// @param values has `report_values` elements.
  void write_report(std::uint32_t index, std::uint64_t step,
                    std::span<double> values) const;

  /// Compares the copies. If they are equal, the first replica of the process
  /// keeps its copy as the snapshot.
  /// @param reports of all replicas.
  /// @returns false if the copies differ.
  /// @pre no replica of this process updates the parameters in this step before
  ///      its own call has returned.
  bool judge(std::uint64_t step, std::uint32_t index,
             std::span<copy_report> reports);

private:
  static constexpr auto never = ~std::uint64_t{0};

  copy_report report_of(std::uint32_t index, bool is_new_view,
                        bool is_received) const;
  void accept(std::uint64_t step, std::uint64_t hash, bool has_state);
  void reject(std::uint64_t step, std::span<const copy_report> reports);

  const model_state& model_;
  const std::uint64_t interval_;
  const bool keeps_snapshot_;
  std::uint64_t first_ = 0; ///< First step of the run.
  bool is_new_view_ = false, is_received_ = false;
  std::atomic<std::uint64_t> last_agreed_ = 0;
  std::atomic<std::uint64_t> deviates_at_ = never;
  mutable std::mutex lock_; ///< Guards the next two members.
  std::string deviation_;
  state_snapshot snapshot_;
};

} // namespace troupe
