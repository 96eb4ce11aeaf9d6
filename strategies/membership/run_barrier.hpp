#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Every process calls `run` with the same steps; the run starts when all have
/// called it. This is the side of the chief.
///
///   who      a chief, P processes, each with a caller of `run`
///   messages caller: join, with its run number and steps; stop, with the
///            number of the run to end early
///            chief: start (to itself); reject, with a reason, to every process
///            that joined
///   start    with the first join of a run that is not decided yet
///   on join  by all processes, with equal run and steps: start
///   on timeout  reject all processes that joined, naming those that did not
///   on lost  reject all processes that joined, and every later join
///   on stop  of the active run: end it. Of a run that has not started: keep
///            the request, and let `start` report it. Of any other run: no
///            effect
///   end      when the run has ended (`finished`); its number is not used again
///   cost     P messages per run
///   faults   join with different steps or run -> all rejected, naming both
///            join of a newer run while a run is active -> that run is aborted,
///            the join is rejected
///            join of a run that was rejected -> rejected for the original
///            reason
///            repeated join -> ignored
namespace troupe::run_barrier {

using troupe::inspect, troupe::serialize;

/// Request of a process to start a run.
struct join {
  std::uint32_t process = 0; ///< Process that sends the request.
  /// Run number; each process counts its own calls of `run`, from 1.
  std::uint64_t run = 0;
  std::uint64_t first = 0; ///< First step of the run.
  std::uint64_t steps = 0; ///< Number of steps of the run.
  /// Milliseconds for which the first process to join waits for the others. At
  /// least the chief's step timeout, at most a year.
  std::uint64_t timeout = 0;
  auto fields() { return std::tie(process, run, first, steps, timeout); }
};

/// Request of a caller to end its run early, in all processes.
struct stop {
  std::uint32_t process = 0; ///< Process that sends the request.
  /// Run number, as in `join`. Other runs are not stopped.
  std::uint64_t run = 0;
  auto fields() { return std::tie(process, run); }
};

/// All processes have joined: the run starts.
struct start {
  join request; ///< The run and its steps; `process` is the last that joined.
  bool stopped = false; ///< A process stopped the run before it started.
};
/// The active run grants no more steps.
struct halt {};
/// The run does not start; `reason` is sent to one process.
struct reject {
  std::uint32_t process = 0; ///< Process to notify.
  std::uint64_t run = 0;     ///< Run number that the process asked for.
  step_commit::abort_cause code = step_commit::abort_cause::stalled;
  std::string reason;
};
/// A process asked for another run while one is active, so that the active run
/// cannot complete.
struct abort {
  std::string reason;
};
using effect = std::variant<start, reject, abort, halt>;
using reaction = std::vector<effect>;

class state_machine {
public:
  /// @param names names of the processes, such as "chief 0" and "worker 1".
  explicit state_machine(std::vector<std::string> names);

  reaction on(const join& request);
  reaction on(const stop& request);

  /// The wait for the other processes has timed out: rejects the processes that
  /// joined.
  /// @param waited the timeout for people, such as "200 ms".
  reaction on_timeout(const std::string& waited);

  /// A process was lost: no run can start any more.
  /// @param code lost or unreachable.
  reaction on_lost(std::uint32_t process, step_commit::abort_cause code,
                   const std::string& reason);

  /// The active run has ended.
  void finished() { active_run_ = 0; }

  /// @returns the run for which processes wait for others. Empty: none.
  std::optional<std::uint64_t> waiting() const;
  /// @returns the names of the processes that did not join the run. Empty if no
  ///          process waits.
  std::vector<std::string> missing() const;

private:
  struct rejection {
    std::uint64_t run = 0;
    step_commit::abort_cause code = step_commit::abort_cause::stalled;
    std::string reason;
  };
  reaction reject_all(step_commit::abort_cause code, std::string reason);
  reaction reject_one(const join& request);
  std::string describe(const join& request) const;

  std::vector<std::string> names_;
  /// By process; the joins of `joining_run_`.
  std::vector<std::optional<join>> joined_;
  /// By process: highest run it asked for.
  std::vector<std::uint64_t> last_run_;
  std::vector<std::uint64_t> stopped_; ///< By process: highest run it stopped.
  std::uint64_t joining_run_ = 0;      ///< The run that processes are joining.
  std::uint64_t decided_ = 0; ///< Runs up to this one were started or rejected.
  std::uint64_t active_run_ = 0; ///< Number of the active run. Zero: none.
  rejection last_rejection_;     ///< Reason of the last rejection.
  /// Set when a process was lost; no run can start then.
  std::optional<rejection> lost_;
};

} // namespace troupe::run_barrier
