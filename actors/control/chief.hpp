#pragma once

#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/control/batch_interval.hpp"
#include "troupe/actors/control/status_survey.hpp"
#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/actors/protocol/group_options.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <map>
#include <optional>

namespace troupe {

struct chief_options {
  /// Processes of the job and their replicas.
  named_processes processes;
  /// Number of steps that a replica may run ahead of the last commit.
  std::uint64_t step_window = default_step_window;
  /// If there is no progress for this time, the chief probes the roles and then
  /// aborts the run. It is also the minimum time that processes wait for each
  /// other to join a run. Measured by the actor system's clock.
  std::chrono::milliseconds step_timeout{60'000};
  std::shared_ptr<flight_recorder> recorder{}; ///< Null: none.
};

// -- protocol -----------------------------------------------------------------

/// The chief's interface, extended by the messages that the chief sends to
/// itself.
using chief_internal_actor = chief_actor::extend<
  // The watchdog timer with this number has expired.
  caf::reacts_to<atom::watchdog, std::uint64_t>,
  // Checks whether the wait for all processes to join a run has timed out.
  caf::reacts_to<atom::missing>,
  // A replica in another process has terminated. The message carries the id of
  // the replica and the reason. The chief sends the message with a delay, in
  // which the loss of the whole process may be reported.
  caf::reacts_to<atom::ended, std::uint32_t, std::string>,
  // The oldest unsent commit may have waited for `max_batch_delay`. The chief
  // sends all unsent commits.
  caf::reacts_to<atom::flush>,
  // The status survey with this number has timed out. The chief replies with
  // the answers that have arrived.
  caf::reacts_to<atom::status, std::uint64_t>>;

// -- state --------------------------------------------------------------------

struct chief_state {
  static inline const char* name = "chief";

  explicit chief_state(chief_internal_actor::pointer self) : self{self} {}
  ~chief_state();

  void open(const chief_options& new_options, message_sender new_sender);
  void set_roles(const job_roles& new_roles);
  void join(const run_barrier::join& request);
  std::chrono::milliseconds
  join_timeout_of(const run_barrier::join& request) const;
  void on_commit_ack(const commit_ack& ack);
  void on_lost(const caf::down_msg& down);
  void on_process_lost(std::uint32_t process, const caf::error& reason);
  void on_watchdog(std::uint64_t timer_id);
  void on_join_timer();
  void on_batch(const owner_batch& batch);
  void on_wait_report(const step_commit::wait_report& report);
  /// Returns the number that a step of the last run has for the user. If the
  /// user does not count it, that is its number in the group.
  std::uint64_t shown(std::uint64_t step) const;
  void perform(run_barrier::reaction effects);
  void perform(step_commit::reaction effects);
  void update_watchdog();
  /// Time that the chief waits for the answers to a probe.
  std::chrono::milliseconds probe_timeout() const;
  /// Returns true if the replica runs in the chief's process.
  bool is_local(std::uint32_t replica) const;
  template <class Message>
  void send_to_replicas(message_kind kind, std::uint64_t step,
                        const Message& message);

  void probe(const step_commit::probe& question);
  void probe_reducers(const step_commit::probe& question);

  // Status of the job; implemented in status_survey.cpp.
  caf::result<job_status> status();
  void on_survey_timeout(std::uint64_t number);
  job_status make_status() const;
  void record_suspicions(const step_commit::wait_report& report) const;
  failure_report pending_step() const;
  /// Fills in why a step or a run waits.
  void explain(job_status& status, const failure_report& report,
               std::uint64_t since_ms) const;

  // Notifications to the callers of `run`; implemented in run_notifier.cpp.
  void notify_commit(commit_record&& record);
  void notify_completed(std::uint64_t next);
  void notify_aborted(std::uint32_t process, std::uint64_t of_run,
                      failure_report report);
  void send_commits();
  void flush();
  template <class Message>
  void send_to_process(std::uint32_t process, const Message& message);

  chief_internal_actor::pointer self;
  chief_options options;
  message_sender sender;
  std::unique_ptr<step_commit::state_machine> commits;
  std::unique_ptr<run_barrier::state_machine> barrier;
  job_roles roles;
  std::map<caf::actor_addr, role_id> role_ids;
  step_function_ref run_function;
  std::uint64_t run = 0;        ///< Number of the active run. Zero: none.
  std::uint64_t first_step = 0; ///< First step of the last run.
  requesting_call call;         ///< The call that the last run belongs to.
  /// First step that is not committed, as the user counts. None: no run has had
  /// steps that the user counts.
  std::optional<std::uint64_t> next_user_step;
  /// By process: first step whose commit the caller of `run` has not
  /// acknowledged.
  std::vector<std::uint64_t> acknowledged;
  /// Commits that the chief has not sent to the other processes yet.
  std::vector<commit_record> unsent_commits;
  bool flush_scheduled = false;  ///< True while a `flush` message is scheduled.
  batch_interval commit_sending; ///< Decides when the chief sends commits.
  bool in_batch = false; ///< True while the reports of a batch are handled.
  step_rate rate;
  status_survey survey;
  /// Run that `join_timeout` and `join_deadline` belong to.
  std::uint64_t joining_run = 0;
  /// Number of the valid watchdog timer; older timers are ignored.
  std::uint64_t watchdog_id = 0;
  bool watchdog_armed = false; ///< True until the valid watchdog timer expires.
  /// True if the watchdog timer limits the wait for answers to a probe, or to a
  /// `configure` message that was sent twice.
  bool watchdog_probing = false;
  /// Progress count of the step-commit machine at the last check.
  std::uint64_t progress_count = 0;
  /// Time of the last check that found progress.
  caf::actor_clock::time_point last_progress{};

  /// Timeout of the wait until all processes have joined the run.
  std::chrono::milliseconds join_timeout{0};
  /// Time when the wait for the processes ends.
  caf::actor_clock::time_point join_deadline{};
  bool join_timer_set = false; ///< True while a join timer is set.
};

// -- behavior -----------------------------------------------------------------

/// The chief, which owns the roles of a job. It grants steps to the replicas
/// and commits the steps in order. If there is no progress, it aborts the run
/// with an error that names the missing roles.
chief_internal_actor::behavior_type
chief(chief_internal_actor::stateful_pointer<chief_state> self,
      chief_options options, message_sender sender);

} // namespace troupe
