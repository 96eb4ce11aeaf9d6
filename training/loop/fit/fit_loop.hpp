#pragma once

#include "troupe/training/loop/audit/parameter_audit.hpp"
#include "troupe/training/loop/audit/snapshot_restore.hpp"
#include "troupe/training/loop/exchange/train_step.hpp"
#include "troupe/training/loop/fit/fit_warnings.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/state_transfer/state_follower.hpp"

#include <chrono>
#include <deque>
#include <functional>

namespace troupe {

/// Carries out one call of `fit`. Each epoch is one run of the strategy's
/// replicas. After each epoch the loop evaluates the model on the validation
/// data, updates early stopping and calls the callbacks.
class fit_loop final : public placement_observer {
public:
  /// @param save_model saves the model as `options.save` says.
  fit_loop(std::shared_ptr<model_state> state, const data::dataset& batches,
           const fit_options& options, std::function<void()> save_model);

  history run();

  void on_new_placement() override {}
  /// The best weights. The model has the rest of the state.
  std::vector<tensor> state_tensors(const std::string&) override;
  void on_copied(const std::string&) override { has_received_state_ = true; }

private:
  using clock = std::chrono::steady_clock;

  /// Reads what identifies the data, unless it is known.
  void identify_data();
  history run_epochs();
  /// What the model has as the position of its last fit after the fit.
  std::optional<fit_position> last_position(fit_end end);
  // The functions up to `save_if_due` are in fit_saving.cpp.

  /// Returns the number of steps up to the next save by steps.
  std::uint64_t steps_to_save() const;
  /// Saves the model if `options.save` says so at this position.
  void save_if_due();
  /// After an exception: tells the model whether its copies have differed.
  void note_deviation();
  /// Trains up to the end of the epoch, or up to the next save in it.
  fit_end run_epoch();
  /// Trains until the model has made `end` steps, or until the run is stopped.
  void train(std::uint64_t end);
  std::uint64_t run_until(std::uint64_t end);
  /// After a failed run: keeps the commits of the steps that this process has
  /// completed, but not heard of.
  void keep_commits();
  /// Calls `on_commit` for these steps.
  void deliver_commits();
  /// Counts these steps after the end of the job, without callbacks.
  void add_known_commits();
  /// How far another process has come in the epoch.
  struct remote_position {
    std::uint64_t steps = 0; ///< Steps that its model has made.
    step_metrics last;       ///< Metrics of the last step.
    epoch_totals totals;
  };
  /// The text from which other processes read a `remote_position`.
  std::string position_text() const;
  /// @errors throws `job_error` if the text is malformed, or if this process
  ///         cannot come to the position.
  remote_position read_position(const std::string& text) const;
  /// Continues at the position of another process.
  void adopt(const remote_position& other);
  /// In a new view: the model has the state of the process with this report,
  /// which has done the most steps.
  void on_state_copied(const call_report& latest);
  // The functions up to `is_copied_ahead` are in fit_following.cpp.

  /// In a process that joins: copies the model's state from a member and
  /// follows its updates, until it has caught up. No effect if no member gives
  /// it.
  /// @returns true if the call may have been completed meanwhile.
  bool copy_ahead();
  enum class copy_result : std::uint8_t {
    copied,
    no_steps, ///< The member makes no steps, or has ended the call.
    failed,   ///< Another member is to be tried.
  };
  copy_result copy_ahead_from(std::uint32_t task);
  /// True if the model has the state of this report. Follows up to it.
  bool is_copied_ahead(const call_report& latest);
  /// What has ended on all workers.
  enum class workers_end : std::uint8_t {
    run,      ///< A run, after which the copies of the state are compared.
    callbacks ///< The callbacks of an epoch.
  };
  /// How that has ended on one worker.
  struct worker_outcome {
    std::string worker; ///< Name of the worker.
    /// The worker was the chief when it called its callbacks.
    bool is_chief = false;
    /// "!" and the text of an exception, "i": interrupted, "l" and an
    /// incarnation: the worker wants to leave. Empty: none of these.
    std::string end;
  };
  /// Tells all workers how the run or the callbacks ended on each worker.
  /// @param repeat_callbacks called in all workers if the chief that has called
  ///                         the callbacks before is lost.
  void synchronize_workers(workers_end of,
                           const std::function<void()>& repeat_callbacks);
  /// True if the callbacks are repeated after these outcomes.
  static bool lack_chief(workers_end of,
                         const std::vector<worker_outcome>& outcomes);
  std::vector<worker_outcome> gather_ends(bool leaves, workers_end of);
  // The functions up to `go_back` are in fit_healing.cpp.

  /// Gathers the outcomes of all processes. After a run, the copies of the
  /// state are compared too, unless it has ended with a deviation.
  std::vector<worker_outcome> gather_outcomes(const std::string& end,
                                              workers_end of);
  /// The reports of this process's copies for the audit at the end of a run.
  std::string audit_text() const;
  /// Compares the copies by the texts of all processes.
  void judge_end(const std::vector<std::string>& texts);
  /// Keeps the position if the copies are compared before the next step.
  void mark_position();
  /// If an audit has found a deviation: returns to the last snapshot, together
  /// with all other processes.
  /// @returns false if no copy has deviated.
  /// @errors throws std::runtime_error with `on_deviation::stop`, if no process
  ///         has an intact snapshot, and if the steps after it were made in
  ///         vain several times.
  bool heal();
  /// Restores the state of the newest snapshot of any process.
  /// @returns its mark, as a text.
  std::string restore_snapshot();
  void go_back(const std::string& position);
  /// True if further steps of this fit follow the last run.
  bool has_further_steps() const;
  /// Ends the run if a flag of the options is set.
  void check_flags();
  bool is_to_stop() const;
  void on_commit_guarded(const commit_record& commit);
  void on_commit(const commit_record& commit);
  // The functions up to `forget_processed` are in fit_callbacks.cpp.

  void call_step_callbacks(const commit_record& commit);
  void call_epoch_callbacks(const epoch_record& record);
  /// If this worker has become the chief: calls the callbacks for the steps
  /// that the chief before it had perhaps not processed.
  void repeat_step_callbacks();
  /// Keeps a step until the chief is known to have processed it.
  void keep_until_processed(const commit_record& commit);
  /// The chief has processed all steps before this one.
  void forget_processed(std::uint64_t end);
  /// Carries out what follows the last step of an epoch: validation, the record
  /// of the epoch, early stopping and callbacks.
  /// @returns false if early stopping ends the fit.
  bool end_epoch();
  /// Updates the state of early stopping with the metrics of an epoch.
  void update_early_stopping(const epoch_record& record);
  /// Returns true if early stopping ends the fit.
  bool should_stop_early() const;
  void restore_best();
  void begin_progress();
  progress_state progress_snapshot() const;

  const std::shared_ptr<model_state> shared_model_;
  model_state& model_;
  data::dataset batches_;
  const fit_options& options_;
  const std::function<void()> save_model_;
  std::shared_ptr<train_step> step_; ///< Shared with the replicas.
  /// Value of `strategy_state::views` when `step_` was made.
  std::uint64_t step_view_ = 0;
  std::optional<progress> progress_; ///< Empty before the first epoch.
  /// The last run has ended with a save within an epoch.
  bool continues_epoch_ = false;
  fit_position position_;
  std::uint64_t steps_done_ = 0; ///< Steps committed in this call of `fit`.
  rate_warning rates_;           ///< Warnings about these steps.

  // State of the current epoch.
  fit_end end_ = fit_end::done;
  bool wants_to_leave_ = false; ///< The leave flag has ended the run.
  std::optional<std::uint64_t> bad_step_;
  /// Names the value that was not finite in `bad_step_`.
  std::string bad_quantity_;
  clock::time_point last_commit_;
  std::exception_ptr thrown_; ///< Exception thrown by a callback.
  /// After a failed run: steps that the model of this process has made.
  std::uint64_t updated_ = 0;
  /// After a failed run: the steps from `model_.steps` to `updated_`.
  std::vector<commit_record> known_commits_;
  /// This worker was the chief when it called the last callbacks.
  bool is_callback_chief_ = false;
  /// The steps for which this worker has called the callbacks, and the chief
  /// perhaps not. At most two step windows.
  std::deque<commit_record> unprocessed_by_chief_;
  step_metrics last_total_; ///< Total of step `updated_` - 1. Empty: not known.

  // State of audits.
  std::shared_ptr<parameter_audit> audit_; ///< Null: no audits.
  /// Deviation that has ended the last run. Empty: none.
  std::string deviation_;
  /// This process has received its state since the last run has begun.
  bool has_received_state_ = false;
  /// Positions before steps with an audit, from the last snapshot on.
  std::vector<snapshot_mark> marks_;
  /// In a process that joins: has copied the model's state. None: it has not.
  std::optional<state_follower> follower_;
  std::uint64_t healed_step_ = 0; ///< Step to which `heal` has returned.
  int heals_ = 0;                 ///< How often it has returned there.
  /// Callbacks of all steps before this one have been called.
  std::uint64_t called_steps_ = 0;
  /// Metrics of the step for which callbacks are called.
  std::vector<metric_value> step_values_;
};

/// Trains the model. The pointer is shared, because a stuck replica may still
/// use the model after this function has returned.
/// @param save_model as in `fit_loop`. It is called between two runs.
history fit(const std::shared_ptr<model_state>& state,
            const data::dataset& batches, const fit_options& options,
            std::function<void()> save_model = {});

} // namespace troupe
