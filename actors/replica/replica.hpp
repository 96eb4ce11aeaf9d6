#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/actors/replica/step_registry.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"
#include "troupe/strategies/tree/participant.hpp"
#include "troupe/strategies/tree/slice_reducers.hpp"

#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <string>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// The interface of a replica with its internal messages.
using replica_inside = replica_actor::extend<
  // Makes progress: the tensor queue may have messages, or a wait may be over.
  caf::reacts_to<atom::wake>,
  // Begins the next step if it is granted.
  caf::reacts_to<atom::next>>;

// -- state --------------------------------------------------------------------

/// Spawn arguments of a replica.
struct replica_wiring {
  std::uint32_t id = 0;
  crew_options options; ///< With no `automatic` or negative value left.
  /// Number that identifies this actor among those with the same id.
  std::uint32_t incarnation = 1;
  /// Number of reducer actors. Zero: the replicas reduce.
  std::uint32_t reducers = 0;
  /// Transport to the replicas and reducers of this process.
  std::shared_ptr<direct_transport> by;
  std::shared_ptr<fault_seam> faults; ///< Fault injector. Null: none.
  /// Backend of the collectives with other processes. Null: all replicas are in
  /// this process.
  std::shared_ptr<data_plane> plane{};
  /// Step functions by name. Null: step functions are never sent by name.
  std::shared_ptr<const step_book> steps{};
};

/// State of a replica. A step ends before the next one begins; a newer
/// generation abandons it.
struct replica_state {
  static inline const char* name = "replica";

  explicit replica_state(replica_inside::pointer self) : self{self} {}
  ~replica_state();

  void wire(const replica_wiring& x, owner_actor to);
  void on_seat(const commit::seat& x);
  void on_order(const commit::order& x, const step_ref& fn);
  void on_grant(const commit::grant& x);
  void on_probe(const commit::probe& x);
  void visit(const visit_ref& x);
  void on_letter(letter&& x);

  /// Runs the step, reads the tensor queue, reduces and begins steps until the
  /// replica has to wait.
  void turn();
  void drain(); ///< Processes all messages of the tensor queue.
  /// Reduces some elements of a slice, of `bucket` if it has any.
  /// @returns false if there is nothing to reduce.
  bool add_some(std::uint32_t bucket);
  void start_step();
  void end_step();
  void take_seat();
  void say_seated();
  void fail(commit::cause code, const std::string& why);
  void fail_of_peer(const data_plane::trouble& x);
  void fail_of_time(std::chrono::milliseconds waited);
  std::string awaited() const;
  std::vector<std::uint32_t> missing_in(std::uint64_t at_step) const;
  void send_part(std::uint32_t bucket, const tensor& part, const terms& said);
  void send_share(std::uint32_t bucket, const tensor& part);
  /// True if the step with this number is granted and begins next.
  bool about_to_enter(std::uint64_t number) const;
  /// True if the chief has announced a newer generation or the replica failed.
  bool abandoned() const { return wanted_epoch > epoch || broken; }

  replica_inside::pointer self;
  std::uint32_t id = 0, incarnation = 1, replicas = 1, reducers = 0;
  crew_options options;
  std::shared_ptr<direct_transport> by;
  std::shared_ptr<const step_book> steps;
  std::shared_ptr<data_plane> plane; ///< Null: all replicas are local.
  outbox out;
  owner_actor owner;
  /// Pending sums and gathers of this replica.
  std::unique_ptr<tree::member> mine;
  /// Slices that this replica reduces.
  std::unique_ptr<tree::adders> hosted;

  /// Current generation and the newest one that the chief has announced. The
  /// chief increments the generation.
  std::uint64_t epoch = 0, wanted_epoch = 0;
  std::uint64_t next = 0, until = 0; ///< Steps [next, until) are granted.
  std::uint64_t applied = 0;         ///< First step whose update did not run.
  step_ref work;                     ///< Step function of the current run.
  bool in_step = false;              ///< True while a step has not ended.
  bool updating = false;             ///< The step cannot be undone any more.
  /// `failed` was sent. The replica waits for the next generation.
  bool broken = false;
  commit::doing doing = commit::doing::idle; ///< For wait reports.
  std::uint32_t waits_for = 0;               ///< Awaited bucket.
  /// The sum is known; the wait is for peers to accept their packets.
  bool settling = false;
  bool woken = false; ///< True while a `wake` message to itself is pending.

  context own; ///< Current context of the step function.
  std::unique_ptr<step_context> step;
  /// Runs the step function. Declared last, because the function uses all
  /// members above.
  std::unique_ptr<fiber> code;
};

// -- behavior -----------------------------------------------------------------

/// A replica: one copy of the model. It runs the step function, contributes to
/// sums and gathers, and reduces its slices if there are no reducer actors.
replica_inside::behavior_type
replica(replica_inside::stateful_pointer<replica_state> self,
        replica_wiring wiring, owner_actor owner);

} // namespace troupe
