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
  std::string leader;        ///< What people call the chief's process.
  std::uint32_t process = 1; ///< This one.
  std::uint32_t first_replica = 0;
  std::shared_ptr<work_listener> listener;
  /// So many reports of each replica leave the process together. The reports
  /// of the last step of a run leave as soon as all replicas of the process
  /// have reported it. Reports that wait are lost with the process.
  std::uint64_t together = 1;
  /// Steps that replicas may be ahead of the last commit (`ahead` of a crew).
  /// The chief never commits a step that is 2 * lease after one that the caller
  /// has not heard of.
  std::uint64_t lease = default_step_window;
  /// Longest that replicas may take to say what they wait for.
  std::chrono::milliseconds grace{250};
  /// Longest that what the chief said may take to get here after its end did.
  std::chrono::milliseconds last_words{5000};
};

// -- protocol -----------------------------------------------------------------

/// Its notes to itself.
using steward_inside = steward_actor::extend<
  // What replicas said has waited for more of its kind for long enough.
  caf::reacts_to<atom::flush>,
  // The replicas had time enough to say what they wait for.
  caf::reacts_to<atom::late>,
  // So had who brings the chief's last words.
  caf::reacts_to<atom::absent>>;

// -- state --------------------------------------------------------------------

struct steward_state {
  static inline const char* name = "steward";

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
  std::uint64_t step() const; ///< The first that somebody here is in.

  steward_inside::pointer self;
  steward_options options;
  outbox out;
  household_ref house;
  std::uint64_t run = 0;    ///< Under way; 0: none.
  std::uint64_t joined = 0; ///< The last that the caller asked for.
  std::uint64_t epoch = 0;
  std::uint64_t ends = 0;  ///< The first step that is not of the run.
  std::uint64_t heard = 0; ///< The first step whose commit the caller has not
                           ///< dealt with, as far as it said.
  std::vector<std::uint64_t> next; ///< By replica here.
  owner_batch unsent;
  bool flushing = false;  ///< An alarm is set for it.
  std::uint64_t told = 0; ///< The first step whose commit the caller waits for.
  std::map<std::uint64_t, commit_record> early; ///< Commits of later steps.
  std::optional<std::uint64_t> end; ///< Of the run, once the chief said it.
  caf::actor_addr gate;             ///< Brings what the chief says.
  bool chief_lost = false;
  bool all_heard = false; ///< Nothing more comes through the gate.
  bool asked = false;     ///< The replicas, for what follows.
  ec code = ec::peer_lost;
  std::string why; ///< Empty: it has left in peace.
  std::vector<commit::blame> blames;
  std::string trouble; ///< Why somebody here could not go on.
};

// -- behavior -----------------------------------------------------------------

/// Owns the replicas of a process that the chief is not in: passes on what they
/// say and what the chief says. When the chief is lost, and all is heard that
/// it said, ends the work, with the step, and what the replicas wait for.
steward_inside::behavior_type
steward(steward_inside::stateful_pointer<steward_state> self,
        steward_options options, outbox out);

} // namespace troupe
