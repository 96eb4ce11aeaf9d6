#pragma once

#include "troupe/strategies/coordinator/messages.hpp"
#include "troupe/strategies/coordinator/records.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// A cluster coordinator schedules closures on workers. The state machine is
/// the side of the coordinator, `closure_effects` that of a shard, and
/// `executions` that of a worker.
///
///   who      a coordinator, W workers, which come and go, S shards. Each life
///            of the coordinator has the records of those before. A worker that
///            is started again is another worker
///   messages coordinator to worker: run, cancel, query; to shard: decision
///            worker to coordinator: ended, failed, stopped, unknown
///            shard to coordinator: decided
///   start    with `schedule`: the closure gets the next ordinal
///   on a free place of a worker: run the closure with the lowest ordinal that
///            waits, as a new attempt. A worker has a number of places. A
///            closure that waits for others needs none, so that all of them are
///            executed at a time. It runs on the worker with the fewest ones
///   on a worker that joins: it takes over closures that wait for others, until
///            no worker has two more of them. They begin again
///   on ended  of the current attempt: it is the end of the closure. Record it,
///            then send the decision to the shards that have effects. When all
///            have answered, the closure is done, and its result is ready
///   on failed  of the current attempt: the error of the coordinator, if it is
///            the first. All closures that wait are cancelled, and those that
///            run are stopped. When none runs, and the shards have answered
///            the decisions, the error is recorded and reported, once. After
///            that the coordinator can be used again
///   on run   a worker begins an execution once. If it began one again that was
///            stopped, shards could have effects of two branches
///   on a worker that is lost: its closures wait again, unless they have ended
///   on schedule  of a closure that has ended in an earlier life: it is not
///            executed. Send its decision again; when all shards have answered,
///            its result is ready. An error that was recorded cancels the same
///            closures, and is reported after the same call of `schedule`
///   on timeout  send again each cancel and decision without an answer, and
///            `query` for each closure that runs. A worker repeats its answer.
///            If it has not received `run`, it says `unknown`, and gets it
///            again
///   end      with the job
///   cost     two messages and a record for a closure without effects; two more
///            messages for each shard with effects. The function and its
///            arguments travel once for each attempt, if no message is lost.
///            The records of all closures since the last `forget_below`
///   order    closures start in the order of their ordinals, and end in any
///   faults   an end that names shards which do not exist -> protocol_error
///            an older attempt or life, an unknown execution, a sender that
///            does not run it, a repeated message -> ignored. So the effects of
///            an attempt that was given up never take place
namespace troupe::coordinator {

// -- effects ------------------------------------------------------------------

/// Sends `run` to a worker, with the function and its arguments.
struct send_run {
  std::uint64_t worker = 0; ///< Receiver.
  coordinator::run run;
  payload closure;
};
/// Sends `cancel` to a worker.
struct send_cancel {
  std::uint64_t worker = 0; ///< Receiver.
  coordinator::cancel cancel;
};
/// Sends `query` to a worker.
struct send_query {
  std::uint64_t worker = 0; ///< Receiver.
  coordinator::query query;
};
/// Sends `decision` to a shard.
struct send_decision {
  std::uint32_t shard = 0; ///< Receiver.
  coordinator::decision decision;
};
/// A closure is done: its result can be fetched.
struct result_ready {
  std::uint64_t ordinal = 0;
  payload result;
};
/// A closure was cancelled, and will not be executed.
struct cancelled {
  std::uint64_t ordinal = 0;
};
/// A closure has thrown. No closure is executed at this time. The host reports
/// the error to the next caller of schedule, join or done, and calls `resume`.
struct error_ready {
  std::uint64_t ordinal = 0;
  payload error;
};

/// A worker has broken the protocol. The host ends its connection, and calls
/// `on_worker_lost`.
struct protocol_error {
  std::uint64_t worker = 0;
  std::string reason; ///< Text for people.
};

using effect = std::variant<send_run, send_cancel, send_decision, result_ready,
                            cancelled, error_ready, protocol_error, record_end,
                            record_error, forget_records, send_query>;
/// Effects; the host performs them in this order. Before a record is durable,
/// it performs no later effect, of this reaction or another one.
using reaction = std::vector<effect>;

class state_machine {
public:
  /// @param shards number of shards of the job.
  /// @param max_unfinished closures from the first one that is not done to the
  ///        last one that is scheduled.
  /// @param life greater than that of all coordinators of the job before.
  /// @param earlier what they have recorded. They cannot record anything after
  ///        the host has read it.
  explicit state_machine(std::uint32_t shards,
                         std::uint64_t max_unfinished = 256 * 1024,
                         std::uint64_t life = 1, records earlier = {})
    : shards_{shards},
      max_unfinished_{max_unfinished},
      life_{life},
      earlier_{std::move(earlier)},
      next_{earlier_.first} {}

  /// False: the caller has to wait, because an early closure is not done, or
  /// because an error is being handled.
  bool can_schedule() const {
    return !error_ && next_ - done_below() < max_unfinished_;
  }
  /// Adds a closure. @pre `can_schedule()`.
  /// @param waits_for_others it ends only if other closures are executed at the
  ///        same time.
  /// @returns its effects; the ordinal is `scheduled() - 1` then.
  reaction schedule(payload closure, bool waits_for_others = false);
  /// Number of closures that were scheduled, with those before
  /// `records::first`.
  std::uint64_t scheduled() const { return next_; }
  /// True if all closures are done or cancelled, and no error is being handled.
  bool is_done() const { return unfinished_.empty() && !error_; }
  /// True from the first error of a closure to `resume`.
  bool is_handling_error() const { return error_.has_value(); }
  /// True if an error has been reported by `error_ready`, and `resume` was not
  /// called since.
  bool has_error() const { return error_ && is_reported_; }
  /// The error was reported to the caller. @pre `has_error()`.
  void resume();

  /// A worker can execute this many closures at once.
  reaction on_worker(std::uint64_t worker, std::uint32_t places);
  /// A worker is lost, or has left.
  reaction on_worker_lost(std::uint64_t worker);

  reaction on(std::uint64_t worker, const ended& received, payload result);
  reaction on(std::uint64_t worker, const failed& received, payload error);
  reaction on(std::uint64_t worker, const stopped& received);
  reaction on(std::uint64_t worker, const unknown& received);
  reaction on(const decided& received);
  /// An interval has passed in which all others can answer.
  reaction on_timeout();

  /// The program goes on with closure `below` if it runs again: it has kept a
  /// state that contains what it needs of the closures before. A program that
  /// never says so runs again from its first closure.
  /// @pre no error is being handled, and `below <= done_below()`.
  /// @errors throws std::logic_error if this precondition does not hold.
  reaction forget_below(std::uint64_t below);

  /// All closures below it are done or cancelled, in this life and all later
  /// ones.
  std::uint64_t done_below() const {
    return unfinished_.empty() ? next_ : unfinished_.begin()->first;
  }

private:
  /// A closure that is not done.
  struct closure {
    payload function{};
    bool waits_for_others = false;
    /// The last one. Its attempt is zero: the closure was never executed.
    coordinator::execution execution{};
    /// Worker of the current attempt. Empty: it waits, or has ended, or is
    /// cancelled, and the error is not recorded yet.
    std::optional<std::uint64_t> worker{};
    bool has_ended = false;
    payload result{};                 ///< Result after the end.
    std::set<std::uint32_t> shards{}; ///< They have not answered the decision.
  };
  struct first_error {
    std::uint64_t ordinal = 0;
    payload error;
  };
  struct worker_load {
    std::uint32_t free_places = 0;
    std::uint32_t without_place = 0; ///< Closures that wait for others.
  };
  /// Closures that wait for a worker.
  struct queue {
    std::set<std::uint64_t> with_place;
    std::set<std::uint64_t> without_place; ///< They wait for others.
  };

  void wait_for_worker(std::uint64_t ordinal, const closure& one);
  void start_waiting(reaction& out);
  void start(reaction& out, std::uint64_t worker, std::uint64_t ordinal);
  void balance(reaction& out, std::uint64_t worker);
  void end(reaction& out, record_end recorded);
  void repeat_error(reaction& out);
  void finish_if_decided(reaction& out, std::uint64_t ordinal);
  void report_if_stopped(reaction& out);
  void cancel_waiting(reaction& out);
  closure* find_running(std::uint64_t worker, const execution& which);
  void release(closure& one);
  run run_of(const closure& one) const {
    return {one.execution, done_below(), one.waits_for_others};
  }
  decision decision_on(const closure& one) const {
    return {one.execution, done_below()};
  }

  const std::uint32_t shards_;
  const std::uint64_t max_unfinished_;
  const std::uint64_t life_;
  /// Records of closures that this life has not scheduled yet.
  records earlier_;
  std::uint64_t next_; ///< Ordinal of the next closure.
  std::map<std::uint64_t, closure> unfinished_; ///< By ordinal.
  queue waiting_;                               ///< Ordinals.
  std::map<std::uint64_t, worker_load> workers_;
  std::optional<first_error> error_;
  bool is_reported_ = false;
};

} // namespace troupe::coordinator
