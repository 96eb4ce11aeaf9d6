#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Every process calls `run` with the same steps; the run starts when all
/// processes have called `run`. The state machine is the side of the chief.
///
///   who      a chief, P processes, each with a caller of `run`
///   messages caller: join, with its run number and steps; stop, with the
///            number of the run to end early
///            chief: start (to itself); reject, with a report of the failure,
///            to every process that joined, or to all
///   start    with the first join of a run that has not started and was not
///            rejected
///   on join  by all processes, with equal run, steps and call: start
///   on timeout  reject all processes that joined; the report names the
///            processes that did not join
///   on lost  reject all processes that joined, and every later join
///   on stop  of the active run: end the run. Of a run that has not started:
///            keep the request, so that `start` reports it. Of any other run:
///            no effect
///   end      when the run has ended (`finished`); its number is not used again
///   cost     P joins per run
///   faults   two joins with different steps, run numbers or calls -> all joins
///            are rejected, also those that are still to come; the report names
///            both requests
///            join of a newer run while a run is active -> the active run is
///            aborted, and the join is rejected
///            join of a run that was rejected -> rejected with the original
///            report
///            repeated join -> ignored
namespace troupe::run_barrier {

/// Request of a process to start a run.
struct join {
  std::uint32_t process = 0; ///< Process that sends the request.
  /// Run number; each process counts its own calls of `run`, from 1.
  std::uint64_t run = 0;
  std::uint64_t first = 0; ///< First step of the run.
  std::uint64_t steps = 0; ///< Number of steps of the run.
  /// Milliseconds after the first join of a run within which all processes must
  /// join; otherwise the joins are rejected. The chief uses the value of the
  /// first join, but at least its step timeout and at most a year.
  std::uint64_t timeout = 0;
  requesting_call call{}; ///< The call that the run belongs to.
  auto fields() { return std::tie(process, run, first, steps, timeout, call); }
};

/// Request of a caller to end its run early, in all processes.
struct stop {
  std::uint32_t process = 0; ///< Process that sends the request.
  /// Number of the run to end, as in `join`.
  std::uint64_t run = 0;
  auto fields() { return std::tie(process, run); }
};

/// All processes have joined: the run starts.
struct start {
  join request;         ///< The join that arrived last.
  bool stopped = false; ///< A process sent `stop` before the run started.
};
/// The chief grants no more steps of the active run.
struct halt {};
/// Tells one process that the run which it requests, or will request, does not
/// start.
struct reject {
  std::uint32_t process = 0; ///< Process to notify.
  std::uint64_t run = 0;     ///< Run number that the process sent.
  failure_report report;
};
/// Aborts the active run: it cannot complete, because a process has left it and
/// requests another run.
struct abort {
  failure_report report;
};
using effect = std::variant<start, reject, abort, halt>;
using reaction = std::vector<effect>;

class state_machine {
public:
  /// @param processes number of processes.
  explicit state_machine(std::uint32_t processes);

  reaction on(const join& request);
  reaction on(const stop& request);

  /// The other processes did not join in time: rejects the processes that
  /// joined.
  /// @param timeout_ms how long the other processes were waited for.
  reaction on_timeout(std::uint64_t timeout_ms);

  /// A process was lost: no run can start any more.
  /// @param code  `ec::peer_lost` or `ec::unreachable`.
  /// @param cause how its connection ended. Empty: the process has shut down.
  reaction on_lost(std::uint32_t process, ec code, const std::string& cause);

  /// The active run has ended.
  void finished() { active_run_ = 0; }

  /// Returns the run that some processes, but not all, have joined. Empty:
  /// none.
  std::optional<std::uint64_t> waiting() const;
  /// Returns the processes that have not joined the run `waiting()`, ascending.
  /// Empty if there is no such run.
  std::vector<std::uint32_t> missing() const;

private:
  reaction reject_all(failure_report report);
  reaction reject_one(const join& request);

  /// By process: the join of `joining_run_`. Empty: the process has not joined.
  std::vector<std::optional<join>> joined_;
  /// By process: the highest run number that the process requested.
  std::vector<std::uint64_t> last_run_;
  /// By process: the last run that the process stopped before the run started.
  std::vector<std::uint64_t> stopped_;
  std::uint64_t joining_run_ = 0; ///< The run that processes are joining.
  /// Highest run number that was started or rejected.
  std::uint64_t decided_ = 0;
  std::uint64_t active_run_ = 0;   ///< Number of the active run. Zero: none.
  std::uint64_t rejected_run_ = 0; ///< The run that was rejected last.
  failure_report last_rejection_;  ///< Why it was rejected.
  /// Set when a process is lost: no run can start any more.
  std::optional<failure_report> lost_;
};

} // namespace troupe::run_barrier
