#pragma once

#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/actors/protocol/local_agent_actor.hpp"

#include <caf/actor_addr.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <map>
#include <optional>
#include <vector>

namespace troupe {

struct steward_options {
  std::string leader;        ///< Name of the chief's process, for error texts.
  std::uint32_t process = 1; ///< Number of this process.
  /// Id of this process's first replica; the others follow it.
  std::uint32_t first_replica = 0;
  std::shared_ptr<work_listener> listener;
  /// Reports per replica that are sent to the chief in one batch. The reports
  /// of the last step of a run are sent as soon as all replicas of the process
  /// have reported it. Reports that were not sent are lost with the process.
  std::uint64_t together = 1;
  /// Steps that a replica may be ahead of the last commit (`max_steps_ahead` of
  /// a replica group). The chief commits at most twice as many steps beyond
  /// those that the caller has acknowledged.
  std::uint64_t lease = default_step_window;
  /// Timeout of the replicas' answers when the chief is lost.
  std::chrono::milliseconds grace{250};
  /// Timeout of the wait for the chief's remaining messages after its loss was
  /// detected.
  std::chrono::milliseconds last_words{5000};
};

// -- protocol -----------------------------------------------------------------

/// The agent's interface and the messages that it sends to itself.
using steward_inside = steward_actor::extend<
  // Messages of the replicas have waited to be batched for the maximum delay.
  caf::reacts_to<atom::flush>,
  // `probe_timeout` has elapsed since the replicas were probed.
  caf::reacts_to<atom::late>,
  // `drain_timeout` has elapsed since the chief was lost.
  caf::reacts_to<atom::absent>>;

// -- state --------------------------------------------------------------------

struct steward_state {
  static inline const char* name = "local_agent";

  explicit steward_state(steward_inside::pointer self) : self{self} {}
  ~steward_state();

  template <class Message>
  void pass_on(subject what, const Message& x);
  void flush();
  void on_seated(const commit::seated& x);
  void on_report(const commit::report& x);
  bool is_last(const commit::report& x) const;
  void on_failed(const commit::failed& x);
  void on_blame(const commit::blame& x);
  void on_join(const muster::join& x);
  void on_commits(const run_commits& x);
  void on_heard(const run_heard& x);
  void on_ended(const run_ended& x);
  void tell_in_order();
  void over(std::uint64_t of_run);
  void on_gate(const caf::actor_addr& x);
  void on_lost(const caf::down_msg& x);
  void on_chief_lost(const caf::error& why);
  void on_all_heard();
  void probe(std::uint32_t i);
  void conclude(const std::string& more);
  void end_with(ec code, const std::string& why);
  std::string what_became_of_it() const;
  /// The first step that a replica of this process has not reported.
  std::uint64_t step() const;

  steward_inside::pointer self;
  steward_options options;
  outbox out;
  household_ref house;
  std::uint64_t run = 0;    ///< Number of the active run. Zero: none.
  std::uint64_t joined = 0; ///< Number of the last run the caller asked for.
  /// The latest generation that a replica of this process has confirmed.
  std::uint64_t epoch = 0;
  std::uint64_t ends = 0; ///< The first step after the run.
  /// The first step whose commit the caller has not acknowledged.
  std::uint64_t heard = 0;
  /// By replica of this process: the first step that it has not reported.
  std::vector<std::uint64_t> next;
  owner_batch unsent;
  bool flushing = false; ///< True while a `flush` is scheduled for reports.
  /// The first step whose commit was not delivered to the caller.
  std::uint64_t told = 0;
  /// Commits that arrived before the commit of an earlier step.
  std::map<std::uint64_t, commit_record> early;
  /// The first step that was not run; set when the chief has ended the run.
  std::optional<std::uint64_t> end;
  /// Skeleton through which the chief's messages arrive.
  caf::actor_addr gate;
  bool chief_lost = false;
  /// True if no more messages of the chief are expected.
  bool all_heard = false;
  /// True if the loss of the chief is being handled, and the replicas may have
  /// been probed.
  bool asked = false;
  /// Code of the chief's loss: peer_lost or unreachable.
  ec code = ec::peer_lost;
  /// Reason for the loss of the chief. Empty: it has shut down.
  std::string why;
  std::vector<commit::blame> blames;
  /// Text of the last failure of a replica in the run. Empty: none.
  std::string trouble;
};

// -- behavior -----------------------------------------------------------------

/// Owns the replicas of a process other than the chief's. It forwards their
/// messages to the chief, and the chief's notifications to the caller of `run`.
/// When the chief is lost and its last messages have arrived, it terminates
/// with an error that names the step and what the replicas wait for.
steward_inside::behavior_type
steward(steward_inside::stateful_pointer<steward_state> self,
        steward_options options, outbox out);

} // namespace troupe
