#pragma once

#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/coordinator/executions.hpp"
#include "troupe/strategies/coordinator/state_machine.hpp"
#include "troupe/tests/strategies/random_job.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::coordinator {

/// Closures under random faults. Messages are lost, late, repeated and
/// reordered, and links are cut for some time. Workers die, or go on although
/// they were given up, and others come. The coordinator is lost with its
/// program, between any two effects. Both come back: the coordinator with what
/// was recorded, the program with the state that it has saved. A shard here has
/// one copy, so it does not die; it can be cut off.
///
/// The program does a number of tasks, each in a closure. It moves 1 from x on
/// shard 0 to y on shard 1 if x > y, else from y to x. It also adds the number
/// of its task to a sum on shard 2. So two executions of a closure can take
/// different branches. A task whose closure was cancelled or has thrown is done
/// again in another closure. A closure that throws has stored some effects
/// before. The oracles:
///
///   exactly once   x + y is unchanged, and the sum is that of the numbers of
///                  all tasks. A task is done once
///   one execution  all shards apply the effects of one execution of a closure,
///                  whose end was recorded before. No closure that was
///                  cancelled or has thrown has effects
///   no loss        when a result is ready, all its effects have taken place.
///   No
///                  closure has two recorded ends, and a program that comes
///                  back schedules the same task in the same closure
///   progress       the tasks end when there are no faults any more, and the
///                  coordinator has forgotten all closures
class random_coordinator_job : public random_job {
public:
  explicit random_coordinator_job(std::uint64_t seed);

  std::string run() override;

private:
  /// What an execution changes at a shard.
  struct stored_change {
    execution from;
    std::int64_t number = 0; ///< Added to the value of the shard.
  };
  struct shard {
    closure_effects effects;
    std::int64_t value = 0;
    /// The execution of each closure whose effects have taken place.
    std::map<std::uint64_t, execution> applied;
  };
  /// The program: what it does next is a function of the calls before and of
  /// what they have told it.
  struct program {
    std::deque<std::uint64_t> tasks;                ///< To be scheduled.
    std::map<std::uint64_t, std::uint64_t> task_of; ///< By closure.
    std::set<std::uint64_t> done;                   ///< Tasks.
    std::set<std::uint64_t> cancelled; ///< Closures whose error it awaits.
    std::uint64_t next = 0;            ///< Closure with which it goes on.
  };
  /// Execution on a worker.
  struct running {
    std::uint64_t task = 0;
    std::map<std::uint32_t, std::int64_t> effects; ///< By shard.
    std::set<std::uint32_t> unstored;
    bool throws = false; ///< When all shards have answered.
  };
  struct worker {
    bool is_alive = true;
    executions begun;
    std::map<execution, running> running_now;
  };

  std::string state_of(std::uint64_t process) const override;
  void tick();

  // -- processes --------------------------------------------------------------

  void to_coordinator(std::uint64_t sender, std::string_view message,
                      const std::function<reaction()>& receive);
  void add_worker();
  void crash(std::string_view next_effect);
  void restart();
  void inject();

  // -- the program ------------------------------------------------------------

  void schedule();
  void save();
  void handle_error(std::uint64_t thrower);

  // -- workers and shards -----------------------------------------------------

  static void stop_superseded(worker& self);
  void execute(std::uint64_t id, const coordinator::run& received,
               std::uint64_t task);
  void compute(std::uint64_t id, const execution& which);
  void store_effects(std::uint64_t id, const execution& which,
                     const running& x);
  void on_stored(std::uint64_t id, const execution& which, std::uint32_t s);
  void finish(std::uint64_t id, const execution& which, answer with);
  void send_answer(std::uint64_t id, const execution& which);
  void decide(std::uint32_t s, const decision& what);

  // -- effects of the coordinator ---------------------------------------------

  void perform(const reaction& effects);
  void perform_one(const send_run& x);
  void perform_one(const send_cancel& x);
  void perform_one(const send_query& x);
  void perform_one(const send_decision& x);
  void perform_one(const result_ready& x);
  void perform_one(const protocol_error& x) { fail(x.reason); }
  void perform_one(const cancelled& x);
  void perform_one(const error_ready& x);
  void perform_one(const record_end& x);
  void perform_one(const record_error& x) { kept_.add(x); }
  void perform_one(const forget_records& x) { kept_.add(x); }

  bool is_finished() const;
  void check_end();

  std::uint64_t tasks_ = 0, last_worker_ = 0;
  std::set<std::uint64_t> throwers_;  ///< Tasks that throw until it is handled.
  std::set<std::uint64_t> can_throw_; ///< They, and those that threw before.

  // The coordinator and its program.
  std::optional<state_machine> machine_;
  program program_;
  std::uint64_t life_ = 1;
  bool is_down_ = false;
  /// Number of the effect before which the coordinator is lost. Zero: none.
  std::uint64_t effects_to_crash_ = 0;

  // What survives it.
  records kept_;
  program saved_;
  std::map<std::uint64_t, std::uint64_t> ended_task_; ///< By closure.

  std::vector<shard> shards_;
  std::map<std::uint64_t, worker> workers_;
  /// All ends that were recorded, and all closures that were cancelled.
  std::map<std::uint64_t, ended> ends_;
  std::set<std::uint64_t> all_cancelled_;
};

} // namespace troupe::coordinator
