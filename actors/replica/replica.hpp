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

/// The replica's notes to itself, and its port's.
using replica_inside = replica_actor::extend<
  // There may be letters in the port.
  caf::reacts_to<atom::wake>,
  // Another step may begin.
  caf::reacts_to<atom::next>>;

// -- state --------------------------------------------------------------------

/// Where a replica finds the others.
struct replica_wiring {
  std::uint32_t id = 0;
  crew_options options; ///< Nothing `automatic` or negative is left in it.
  std::uint32_t incarnation = 1;
  std::uint32_t reducers = 0; ///< 0: replicas add.
  std::shared_ptr<direct_transport> by;
  std::shared_ptr<fault_seam> faults;
  /// Where replicas of other processes are; null: there are none.
  std::shared_ptr<data_plane> plane{};
  /// Where functions that came by name are; null: none come so.
  std::shared_ptr<const step_book> steps{};
};

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

  void turn();                         ///< Goes on with whatever can go on.
  void drain();                        ///< Takes the letters out of the port.
  bool add_some(std::uint32_t bucket); ///< One slice of additions, if any.
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
  /// Between two steps that it was ordered to run.
  bool about_to_enter(std::uint64_t number) const;
  bool abandoned() const { return wanted_epoch > epoch || broken; }

  replica_inside::pointer self;
  std::uint32_t id = 0, incarnation = 1, replicas = 1, reducers = 0;
  crew_options options;
  std::shared_ptr<direct_transport> by;
  std::shared_ptr<const step_book> steps;
  std::shared_ptr<data_plane> plane; ///< Null: all replicas are here.
  outbox out;
  owner_actor owner;
  std::unique_ptr<tree::member> mine;   ///< My sums and gathers.
  std::unique_ptr<tree::adders> hosted; ///< The sums that I add.

  std::uint64_t epoch = 0, wanted_epoch = 0;
  std::uint64_t next = 0, until = 0; ///< Steps [next, until) are granted.
  std::uint64_t applied = 0; ///< The first step whose update did not run.
  step_ref work;
  bool in_step = false;
  bool updating = false; ///< The step is not undone any more.
  bool broken = false;   ///< Said `failed`; waits for the next seat.
  commit::doing doing = commit::doing::idle;
  std::uint32_t waits_for = 0; ///< Bucket.
  bool settling = false; ///< Not for the sum, but for others to take theirs.
  bool woken = false;    ///< A wake of its own is under way.

  context own; ///< Current while the step function runs.
  std::unique_ptr<step_context> step;
  std::unique_ptr<fiber> code; ///< Last: what runs on it uses all of the above.
};

// -- behavior -----------------------------------------------------------------

/// One copy of the model: runs the step function, brings its parts of the sums,
/// and, when the replicas add themselves, adds its share of them.
replica_inside::behavior_type
replica(replica_inside::stateful_pointer<replica_state> self,
        replica_wiring wiring, owner_actor owner);

} // namespace troupe
