#pragma once

#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/control/batch_interval.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/actors/protocol/local_agent_actor.hpp"

#include <caf/actor_addr.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <map>
#include <optional>
#include <vector>

namespace troupe {

struct local_agent_options {
  /// Placement of the job. This process is not the leader, process 0.
  local_placement placement;
  std::shared_ptr<run_listener> listener;
  /// Number of reports per replica that the agent sends to the chief in one
  /// batch. The agent sends the batch earlier when all its replicas have
  /// reported a step, if it has sent none in the last `max_batch_delay`. The
  /// first and the last step of a run are sent at once. Unsent reports are lost
  /// if the process ends.
  std::uint64_t report_batch = 1;
  /// Number of steps that a replica may run ahead of the last commit. The chief
  /// also grants at most twice this number of steps beyond the last commit that
  /// the caller of `run` has acknowledged. A commit of a later step violates
  /// the protocol.
  std::uint64_t step_window = default_step_window;
  /// Time that the agent waits for answers when it probes the replicas after
  /// the loss of the chief.
  std::chrono::milliseconds probe_timeout{250};
  /// Time that the agent waits for the chief's remaining messages after it has
  /// detected the chief's loss.
  std::chrono::milliseconds drain_timeout{5000};
  std::shared_ptr<flight_recorder> recorder{}; ///< Null: none.
};

// -- protocol -----------------------------------------------------------------

/// The agent's interface, extended by the messages that the agent sends to
/// itself.
using local_agent_internal_actor = local_agent_actor::extend<
  // An unsent message of a replica may have waited for `max_batch_delay` or
  // `max_answer_delay`. The agent sends all unsent messages to the chief.
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
  std::uint64_t* next_step_of(std::uint32_t replica);
  void on_configured(const step_commit::configured& answer);
  void on_step_done(const step_commit::step_done& report);
  bool is_complete(std::uint64_t step) const;
  bool is_awaited(const step_commit::step_done& report) const;
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
  void on_aborted(const run_aborted& x);
  void terminate_run();
  void terminate(failure_report report);
  /// Returns the lowest step that some replica of this process has not
  /// reported.
  std::uint64_t first_unreported_step() const;

  local_agent_internal_actor::pointer self;
  local_agent_options options;
  message_sender sender;
  local_roles roles;
  std::uint64_t run = 0;    ///< Number of the active run. Zero: none.
  std::uint64_t joined = 0; ///< Number of the last run the caller joined.
  /// Latest generation that a replica of this process has acknowledged.
  std::uint64_t generation = 0;
  std::uint64_t first_step = 0; ///< First step of the run.
  std::uint64_t end_step = 0;   ///< First step after the end of the run.
  /// First step whose commit the caller of `run` has not acknowledged.
  std::uint64_t acknowledged = 0;
  /// By replica of this process: first step that the replica has not reported.
  std::vector<std::uint64_t> next_steps;
  owner_batch unsent;
  /// True while a `flush` for reports of steps is scheduled.
  bool flush_scheduled = false;
  /// Decides when the agent sends reports of steps.
  batch_interval report_sending;
  /// First step whose commit the agent has not delivered to the caller.
  std::uint64_t next_delivery = 0;
  /// Commits that arrived before the commit of an earlier step, by step.
  std::map<std::uint64_t, commit_record> reorder_buffer;
  /// First step that was not run. None until the chief has ended the run.
  std::optional<std::uint64_t> run_end;
  /// Skeleton through which the chief's messages arrive.
  caf::actor_addr chief_skeleton;
  bool chief_lost = false;
  /// True if all messages of the chief have arrived or `drain_timeout` has
  /// elapsed.
  bool chief_drained = false;
  /// True once the agent handles the chief's loss. It then waits for the
  /// replicas' answers to its probes, or has ended the run.
  bool handling_loss = false;
  /// Error code of the chief's loss: peer_lost or unreachable.
  ec loss_code = ec::peer_lost;
  /// How the connection to the chief ended. Empty: the chief has shut down.
  std::string loss_cause;
  std::vector<step_commit::wait_report> wait_reports;
  /// The last failure that a replica reported in the run. Nullopt: none.
  std::optional<failure_report> replica_failure;
};

// -- behavior -----------------------------------------------------------------

/// The local agent, which owns the replicas of a process other than the
/// chief's. It forwards their messages to the chief, and the chief's
/// notifications to the caller of `run`. After the loss of the chief it waits
/// for the chief's last messages. Then it reports an error that names the step
/// and what the replicas wait for, and terminates.
local_agent_internal_actor::behavior_type local_agent(
  local_agent_internal_actor::stateful_pointer<local_agent_state> self,
  local_agent_options options, message_sender sender);

} // namespace troupe
