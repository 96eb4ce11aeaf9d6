#pragma once

#include "troupe/actors/collectives/backend_step_context.hpp"
#include "troupe/actors/collectives/collective_backend.hpp"
#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/actors/replica/step_registry.hpp"
#include "troupe/strategies/step_commit/state_machine.hpp"

#include <caf/actor_clock.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <optional>
#include <string>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// The interface of a replica and its messages to itself.
using replica_internal_actor = replica_actor::extend<
  // Makes progress: the tensor queue may have messages, or a wait may be over.
  caf::reacts_to<atom::wake>,
  // Begins the next step if it is granted.
  caf::reacts_to<atom::next>,
  // The step function waits although a path to a process has ended: checks the
  // condition again.
  caf::reacts_to<atom::watchdog>>;

// -- state --------------------------------------------------------------------

/// Spawn arguments of a replica.
struct replica_config {
  std::uint32_t id = 0;
  /// Options of the group, in which automatic values have been replaced.
  replica_group_options options;
  /// Number of the actor that carries out the replica, from 1. Always 1 in a
  /// job, because replicas are not respawned.
  std::uint32_t incarnation = 1;
  std::shared_ptr<fault_injector> faults;        ///< Null: no faults.
  std::shared_ptr<collective_backend> backend{}; ///< Must not be null.
  /// Step functions by name. Null: step functions are never sent by name.
  std::shared_ptr<const step_registry> registry{};
};

/// State of a replica. A step ends before the next one begins. If the chief
/// announces a newer generation, the replica abandons its current step.
struct replica_state {
  static inline const char* name = "replica";

  explicit replica_state(replica_internal_actor::pointer self) : self{self} {}
  ~replica_state();

  void configure(const replica_config& config,
                 replica_owner_actor replica_owner);
  void on_configure(const step_commit::configure& x);
  void on_start_steps(const step_commit::start_steps& start,
                      const step_function_ref& fn);
  void on_grant(const step_commit::grant& x);
  void on_probe(const step_commit::probe& probe);
  void run_task(const replica_task& task);

  /// Runs the step, works for other replicas and begins steps until the replica
  /// has to wait.
  void make_progress();
  void start_step();
  void end_step();
  void begin_generation();
  void send_configured();
  void fail(failure_report report);
  void fail_with(const collective_backend::failure& failure);
  void report_suspicion();
  step_commit::wait_report make_wait_report(std::uint64_t step_number) const;
  void fail_for_timeout(std::chrono::milliseconds waited);
  std::uint32_t awaited_bucket() const;
  step_commit::activity current_activity() const;
  role_wait current_wait(std::uint64_t step_number) const;
  std::vector<std::uint32_t> missing_replicas(std::uint64_t number) const;
  /// True if the step with this number is granted and begins next.
  bool is_next_step(std::uint64_t number) const;
  /// True if the chief has announced a newer generation or the replica failed.
  bool is_superseded() const {
    return newest_generation > generation || failed;
  }

  replica_internal_actor::pointer self;
  std::uint32_t id = 0, incarnation = 1;
  replica_group_options options;
  std::shared_ptr<const step_registry> registry;
  std::shared_ptr<collective_backend> backend;
  message_sender sender;
  replica_owner_actor owner;

  /// Current generation, and the newest generation that the chief has
  /// announced. The chief increments the generation.
  std::uint64_t generation = 0, newest_generation = 0;
  /// The steps [next_step, granted_until) are granted.
  std::uint64_t next_step = 0, granted_until = 0;
  std::uint64_t first_unapplied = 0; ///< First step whose update has not run.
  step_function_ref run_function;    ///< Step function of the current run.
  bool in_step = false;              ///< True while a step has not ended.
  bool update_begun = false; ///< True: the step cannot be undone any more.
  /// True: `failed` was sent, and the replica waits for the next generation.
  bool failed = false;
  /// Time until which a suspicion is not reported again.
  caf::actor_clock::time_point next_suspicion_report{};
  /// True while a `watchdog` message to itself is pending.
  bool suspicion_timer_set = false;
  /// The condition that the step function waits for. nullopt: it does not wait.
  std::optional<collective_backend::wait_condition> awaited;
  /// True while a `wake` message to itself is pending.
  bool wake_pending = false;

  context own_context; ///< Context of the ops in the step function.
  std::unique_ptr<backend_step_context> step;
  /// Runs the step function. Declared last, because the function uses all
  /// members above.
  std::unique_ptr<fiber> step_fiber;
};

// -- behavior -----------------------------------------------------------------

/// A replica: one copy of the model. It runs the step function. A collective
/// backend connects it to the other replicas.
replica_internal_actor::behavior_type
replica(replica_internal_actor::stateful_pointer<replica_state> self,
        replica_config config, replica_owner_actor owner);

} // namespace troupe
