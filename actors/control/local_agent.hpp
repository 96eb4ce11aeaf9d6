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

struct local_agent_options {
  std::string leader;        ///< Name of the chief's process, for error texts.
  std::uint32_t process = 1; ///< Number of this process.
  std::vector<std::uint32_t> replicas; ///< Ids of its replicas, ascending.
  std::shared_ptr<run_listener> listener;
  /// Reports per replica that are sent to the chief in one batch. The reports
  /// of the last step of a run are sent as soon as all replicas of the process
  /// have reported it. Reports that were not sent are lost with the process.
  std::uint64_t report_batch = 1;
  /// Steps that a replica may be ahead of the last commit (`max_steps_ahead` of
  /// a replica group). The chief commits at most twice as many steps beyond
  /// those that the caller has acknowledged.
  std::uint64_t step_window = default_step_window;
  /// Timeout of the replicas' answers when the chief is lost.
  std::chrono::milliseconds probe_timeout{250};
  /// Timeout of the wait for the chief's remaining messages after its loss was
  /// detected.
  std::chrono::milliseconds drain_timeout{5000};
};

// -- protocol -----------------------------------------------------------------

/// The agent's interface and the messages that it sends to itself.
using local_agent_internal_actor = local_agent_actor::extend<
  // Messages of the replicas have waited to be batched for the maximum delay.
  caf::reacts_to<atom::flush>,
  // `probe_timeout` has elapsed since the replicas were probed.
  caf::reacts_to<atom::watchdog>,
  // `drain_timeout` has elapsed since the chief was lost.
  caf::reacts_to<atom::missing>>;

// -- state --------------------------------------------------------------------

struct local_agent_state {
  static inline const char* name = "local_agent";

  explicit local_agent_state(local_agent_internal_actor::pointer self)
    : self{self} {}
  ~local_agent_state();

  template <class Message>
  void forward(message_kind kind, const Message& message);
  void flush();
  std::size_t index_of(std::uint32_t replica) const;
  void on_configured(const step_commit::configured& answer);
  void on_step_done(const step_commit::step_done& report);
  bool completes_run(const step_commit::step_done& report) const;
  void on_failed(const step_commit::failed& failure);
  void on_wait_report(const step_commit::wait_report& report);
  void on_join(const run_barrier::join& request);
  void on_commits(const commit_batch& batch);
  void on_commit_ack(const commit_ack& ack);
  void on_completed(const run_completed& end);
  void deliver_commits();
  void clear_run(std::uint64_t of_run);
  void on_skeleton(const caf::actor_addr& skeleton);
  void on_lost(const caf::down_msg& down);
  void on_chief_lost(const caf::error& reason);
  void on_chief_drained();
  void probe(std::uint32_t i);
  void terminate_run(const std::string& more);
  void terminate(ec code, const std::string& text);
  std::string describe_chief_loss() const;
  /// The first step that a replica of this process has not reported.
  std::uint64_t first_unreported_step() const;

  local_agent_internal_actor::pointer self;
  local_agent_options options;
  message_sender sender;
  local_roles roles;
  std::uint64_t run = 0;    ///< Number of the active run. Zero: none.
  std::uint64_t joined = 0; ///< Number of the last run the caller asked for.
  /// The latest generation that a replica of this process has confirmed.
  std::uint64_t generation = 0;
  std::uint64_t end_step = 0; ///< The first step after the run.
  /// The first step whose commit the caller has not acknowledged.
  std::uint64_t acknowledged = 0;
  /// By replica of this process: the first step that it has not reported.
  std::vector<std::uint64_t> next_steps;
  owner_batch unsent;
  /// True while a `flush` is scheduled for reports.
  bool flush_scheduled = false;
  /// The first step whose commit was not delivered to the caller.
  std::uint64_t next_delivery = 0;
  /// Commits that arrived before the commit of an earlier step.
  std::map<std::uint64_t, commit_record> reorder_buffer;
  /// The first step that was not run; set when the chief has ended the run.
  std::optional<std::uint64_t> run_end;
  /// Skeleton through which the chief's messages arrive.
  caf::actor_addr chief_skeleton;
  bool chief_lost = false;
  /// True if no more messages of the chief are expected.
  bool chief_drained = false;
  /// True if the loss of the chief is being handled, and the replicas may have
  /// been probed.
  bool handling_loss = false;
  /// Code of the chief's loss: peer_lost or unreachable.
  ec loss_code = ec::peer_lost;
  /// Reason for the loss of the chief. Empty: it has shut down.
  std::string loss_reason;
  std::vector<step_commit::wait_report> wait_reports;
  /// Text of the last failure of a replica in the run. Empty: none.
  std::string failure_text;
};

// -- behavior -----------------------------------------------------------------

/// Owns the replicas of a process other than the chief's. It forwards their
/// messages to the chief, and the chief's notifications to the caller of `run`.
/// When the chief is lost and its last messages have arrived, it terminates
/// with an error that names the step and what the replicas wait for.
local_agent_internal_actor::behavior_type local_agent(
  local_agent_internal_actor::stateful_pointer<local_agent_state> self,
  local_agent_options options, message_sender sender);

} // namespace troupe
