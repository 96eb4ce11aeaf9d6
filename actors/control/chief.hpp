#pragma once

#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/control/status_survey.hpp"
#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/actors/protocol/group_options.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <map>

namespace troupe {

struct chief_options {
  std::uint32_t replicas = 1;
  /// Steps that a replica may be ahead of the last commit.
  std::uint64_t lease = default_step_window;
  /// Time without progress after which the roles are probed and the run is
  /// aborted. It is also the minimum timeout of the wait until all processes
  /// have joined a run. Measured by the actors' clock.
  std::chrono::milliseconds patience{60'000};
  /// Placement of the replicas on the processes. Empty: one process holds all.
  commit::places where;
};

// -- protocol -----------------------------------------------------------------

/// The chief's interface and the messages that it sends to itself.
using chief_inside = chief_actor::extend<
  // The watchdog timer with this number has expired.
  caf::reacts_to<atom::late, std::uint64_t>,
  // The wait until all processes have joined a run may have timed out.
  caf::reacts_to<atom::absent>,
  // A replica of another process terminated a while ago, with this reason.
  // Sent after a delay, in which the loss of its process may be reported.
  caf::reacts_to<atom::ended, std::uint32_t, std::string>,
  // Commits have waited to be batched for `max_batch_delay`.
  caf::reacts_to<atom::flush>,
  // The status survey with this number has timed out: the reply is made from
  // the answers received so far.
  caf::reacts_to<atom::status, std::uint64_t>>;

// -- state --------------------------------------------------------------------

struct chief_state {
  static inline const char* name = "chief";

  explicit chief_state(chief_inside::pointer self) : self{self} {}
  ~chief_state();

  void open(const chief_options& x, outbox by);
  void take(const cast_ref& x);
  void join(const muster::join& x);
  std::chrono::milliseconds join_timeout_of(const muster::join& x) const;
  void on_heard(const run_heard& x);
  void on_lost(const caf::down_msg& x);
  void on_process_lost(std::uint32_t process, const caf::error& why);
  void on_late(std::uint64_t guard);
  void on_absent();
  void on_batch(const owner_batch& x);
  void on_blame(const commit::blame& x);
  void perform(muster::reaction what);
  void perform(commit::reaction what);
  void watch();
  /// Timeout of the answers to a probe.
  std::chrono::milliseconds grace() const;
  /// True if the replica runs in the chief's process.
  bool is_here(std::uint32_t replica) const;
  template <class Message>
  void tell_replicas(subject what, std::uint64_t step, const Message& x);

  void probe(const commit::probe& x);
  void probe_reducers(const commit::probe& x);

  // Status of the job; implemented in status_survey.cpp.
  caf::result<job_status> status();
  void on_surveyed(std::uint64_t number);
  job_status report() const;
  std::string why_not_done() const;

  // Notifications to the callers of `run`; implemented in run_notifier.cpp.
  void tell_commit(commit_record&& x);
  void tell_end(std::uint64_t next);
  void tell_failure(std::uint32_t process, std::uint64_t of_run, ec code,
                    const std::string& why);
  void flush();
  template <class Message>
  void tell(std::uint32_t process, const Message& x);

  chief_inside::pointer self;
  chief_options options;
  outbox out;
  std::unique_ptr<commit::ledger> book;
  std::unique_ptr<muster::machine> gathering;
  cast_ref cast;
  std::map<caf::actor_addr, party> ids;
  step_ref work;
  std::uint64_t run = 0; ///< Number of the active run. Zero: none.
  /// By process: the first step whose commit its caller has not acknowledged.
  std::vector<std::uint64_t> heard;
  /// Commits that were not sent to the other processes yet.
  std::vector<commit_record> unsent;
  bool flushing = false; ///< True while a `flush` message is scheduled.
  job_pace pace;
  chief_survey survey;
  /// The run that the join timeout and its deadline belong to.
  std::uint64_t guarded = 0;
  /// Number of the valid watchdog timer; older timers are ignored.
  std::uint64_t guard = 0;
  bool armed = false; ///< True until the valid watchdog timer expires.
  /// True if the watchdog timer was set for the answers to a probe, or to
  /// `configure` messages that were sent again.
  bool probed = false;
  /// Progress count of the step-commit machine at the last check.
  std::uint64_t moves = 0;
  /// Time of the last check that found progress.
  caf::actor_clock::time_point moved{};

  /// Timeout of the wait until all processes have joined the run.
  std::chrono::milliseconds join_timeout{0};
  caf::actor_clock::time_point join_deadline{}; ///< End of that wait.
  bool join_alarm = false; ///< True while a timer for that wait is set.
};

ec code_of(commit::cause x);

// -- behavior -----------------------------------------------------------------

/// Owns the roles of a job: grants steps to the replicas, commits the steps in
/// order, and names the missing roles if there is no progress.
chief_inside::behavior_type
chief(chief_inside::stateful_pointer<chief_state> self, chief_options options,
      outbox out);

} // namespace troupe
