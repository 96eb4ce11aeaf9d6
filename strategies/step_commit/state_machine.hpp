#pragma once

#include "troupe/strategies/error_code.hpp"
#include "troupe/strategies/failure_report.hpp"
#include "troupe/strategies/fields.hpp"
#include "troupe/strategies/placement.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Steps are granted in advance and committed in order: R replicas run the same
/// steps, and a step is committed when all replicas have reported it. The state
/// machine is the side of the chief.
///
///   who      a chief, R replicas; R is fixed for the life of the job
///   messages chief: configure, start_steps, grant, and probe, which asks why a
///            step does not complete
///            replica: configured, step_done, failed, and wait_report in answer
///            to a probe
///   start    with a generation: every replica is sent `configure`, abandons
///            any step of an older generation and answers `configured`
///   on configured  by all replicas: start the run, and grant its first
///            `step_window` steps
///   on step_done  by all replicas for the first uncommitted step: commit the
///            step and grant one more; grants are sent in batches of a quarter
///            of the step window
///   on failed  abort the run: begin the next generation. When all replicas
///            have acknowledged that generation, report the reason of the abort
///   on lost  abort the run as on failed; the replica stays lost. If a whole
///            process is lost: probe first, to name the operation that waits
///            for that process
///   on a wait that timed out  in a failure whose report names no missing
///            replica: probe first, to name those that the others miss
///   on suspicion  in a wait report without a probe: a replica's path to
///            a process has ended. Probe, and wait for the loss of that
///            process. If it is not reported until the next timeout, or all
///            replicas have answered, abort the run as on failed
///   on timeout  after a step timeout without progress: probe. At the next
///            timeout abort the run; the report names the operation that does
///            not complete and the missing replicas
///   end      when the last step of the run is committed. After `stop` that is
///            the last granted step
///   cost     R step_done per step and R grants per quarter of the step window;
///            a step waits only for its grant, and only if the window is used
///            up. R configure and R configured
///            per generation, R start_steps per run. A replica that does not
///            acknowledge `configure` in time is sent it once more
///   order    the metrics of a step are added in tree order over replica ids
///   faults   older generation, another incarnation than in `configured`, or
///            a repeated message -> ignored
///            step_done of a step that was not granted, or of an unknown
///            replica -> the run is aborted as `protocol`
///            wait_report of an unknown replica, or one that names more
///            replicas than exist or an unknown process -> ignored
///            failed with a report that names unknown replicas or processes, or
///            of a kind that a replica cannot report -> the run is aborted
///            without the content of that report
namespace troupe::step_commit {

using troupe::activity;

// -- messages -----------------------------------------------------------------

/// Assigns a replica to a generation. The replica abandons all older
/// generations.
struct configure {
  /// Generation that the replica enters. The chief increments it at each
  /// reconfiguration of the replicas.
  std::uint64_t generation = 0;
  std::uint32_t replica = 0;  ///< Id of the replica that is configured.
  std::uint32_t replicas = 1; ///< Number of replicas of the job.
  auto fields() { return std::tie(generation, replica, replicas); }
};

/// Starts the steps of a run. The step function travels beside this message.
struct start_steps {
  std::uint64_t generation = 0; ///< Generation of the run.
  std::uint64_t first = 0;      ///< First step of the run.
  std::uint64_t until = 0;      ///< Steps below this number are granted.
  auto fields() { return std::tie(generation, first, until); }
};

/// Grants more steps.
struct grant {
  std::uint64_t generation = 0; ///< Generation of the run.
  std::uint64_t until = 0; ///< Steps below this number are granted; only grows.
  auto fields() { return std::tie(generation, until); }
};

/// Asks every replica and reducer why a step does not complete.
struct probe {
  std::uint64_t generation = 0; ///< Generation of the run.
  std::uint64_t step = 0;       ///< Step that does not complete.
  auto fields() { return std::tie(generation, step); }
};

/// Acknowledges `configure`.
struct configured {
  std::uint64_t generation = 0; ///< Generation that the replica has entered.
  std::uint32_t replica = 0;    ///< Id of the replica.
  /// Number of the actor that carries out the replica, from 1. Always 1 in a
  /// job, because replicas are not respawned.
  std::uint32_t incarnation = 0;
  std::uint64_t next = 0; ///< First step that the replica has not applied.
  auto fields() { return std::tie(generation, replica, incarnation, next); }
};

/// Reports that a replica has finished a step.
struct step_done {
  std::uint64_t generation = 0;  ///< Generation of the run.
  std::uint64_t step = 0;        ///< Step that is finished.
  std::uint32_t replica = 0;     ///< Id of the replica.
  std::uint32_t incarnation = 0; ///< Number of the replica's actor, from 1.
  step_metrics metrics;          ///< Metrics of the step.
  auto fields() {
    return std::tie(generation, step, replica, incarnation, metrics);
  }
};

/// Reports that a replica cannot complete a step.
struct failed {
  std::uint64_t generation = 0;  ///< Generation of the run.
  std::uint64_t step = 0;        ///< Step that failed.
  std::uint32_t replica = 0;     ///< Id of the replica.
  std::uint32_t incarnation = 0; ///< As in `configured`.
  /// Report of the kind `step_failed`, `wait_timed_out`, `peer_violation` or
  /// `step_function_unknown`.
  failure_report report;
  auto fields() {
    return std::tie(generation, step, replica, incarnation, report);
  }
};

/// A replica's path for tensors to a process has ended. Only the chief decides
/// whether the process is lost.
struct suspicion {
  std::uint32_t process = 0; ///< Number of the process.
  ec code = ec::peer_lost;   ///< `ec::peer_lost` or `ec::unreachable`.
  std::string reason;        ///< How the path ended; text for people.
  auto fields() { return std::tie(process, code, reason); }
};

/// Answer to a probe: the activity of a role and the inputs it waits for. A
/// replica also sends it unasked when it begins to suspect a process.
struct wait_report {
  std::uint64_t generation = 0; ///< Generation of the probe.
  std::uint64_t step = 0;       ///< Step of the probe.
  bool reducer = false;         ///< The sender is a reducer, not a replica.
  std::uint32_t id = 0;         ///< Id of the reducer or replica.
  activity current_activity = activity::idle;
  /// Bucket of the collective that the role waits for. Unused by the activities
  /// `idle`, `computing` and `update`.
  std::uint32_t bucket = 0;
  /// Replicas whose contributions are missing, as far as the role knows.
  std::vector<std::uint32_t> missing;
  /// Processes that the replica suspects.
  std::vector<suspicion> suspects{};
  auto fields() {
    return std::tie(generation, step, reducer, id, current_activity, bucket,
                    missing, suspects);
  }
};

// -- effects ------------------------------------------------------------------

struct send_configure {
  /// The owner of the state machine sets `replica` for each receiver.
  configure message;
  std::vector<std::uint32_t> replicas; ///< Replicas that receive the message.
};
struct send_start {
  start_steps message;
};
struct send_grant {
  grant message;
};
struct send_probe {
  probe message;
};
struct committed {
  commit_record record;
};
struct completed {
  std::uint64_t next = 0; ///< First step after the run.
};
struct aborted {
  failure_report report; ///< The owner of the state machine sets `run`.
};
using effect = std::variant<send_configure, send_start, send_grant, send_probe,
                            committed, completed, aborted>;
/// Effects; the owner of the state machine performs them in this order.
using reaction = std::vector<effect>;

// -- state machine ------------------------------------------------------------

/// Returns the number of steps that share one message: a grant, a notification
/// of commits, or an acknowledgement of commits.
constexpr std::uint64_t grant_batch(std::uint64_t step_window) {
  return step_window < 4 ? 1 : step_window / 4;
}

/// Returns the step after the last step of a run. Saturates at the maximum,
/// which stands for an unlimited run.
constexpr std::uint64_t end_step(std::uint64_t first, std::uint64_t steps) {
  return steps > ~first ? ~std::uint64_t{0} : first + steps;
}

class state_machine {
public:
  /// @param step_window maximum number of steps that a replica may be ahead of
  ///                    the last commit.
  /// @param replicas    the processes of the job and their replicas.
  state_machine(std::uint64_t step_window, placement replicas);

  /// Begins the first generation.
  reaction open();

  /// Starts a run of `steps` steps, beginning with `first`. @pre no run is
  /// active.
  reaction run(std::uint64_t first, std::uint64_t steps);
  /// Grants no more steps: the run completes when the granted steps are
  /// committed.
  reaction stop();
  /// The caller of the run has processed the commits of all steps below `next`.
  /// Steps are granted at most two step windows beyond the last acknowledged
  /// step.
  reaction acknowledge(std::uint64_t next);

  reaction on(const configured& reply);
  reaction on(const step_done& done);
  reaction on(const failed& failure);
  reaction on(const wait_report& report);

  /// The actor of a replica terminated. @param cause exit reason of the actor.
  reaction on_lost(std::uint32_t replica, const std::string& cause);
  /// A process with all its replicas is lost.
  /// @param code  `ec::peer_lost` or `ec::unreachable`.
  /// @param cause how its connection ended. Empty: the process has shut down.
  reaction on_process_lost(std::uint32_t process, ec code,
                           const std::string& cause);
  reaction on_reducer_lost(std::uint32_t reducer, const std::string& cause);

  /// Aborts the active run for a reason outside its steps, such as a process
  /// that joins another run. No effect if no run is active.
  reaction end_with(failure_report reason);

  /// `progress_count` did not change within the step timeout.
  /// @param timeout_ms the step timeout.
  reaction on_timeout(std::uint64_t timeout_ms);

  /// Returns true if a peer that follows the protocol can send the report: its
  /// replica exists, and it lists no more replicas than exist. Ids of reducers
  /// are not checked.
  bool is_possible(const wait_report& report) const;

  /// True if the machine waits for messages of replicas, so that the watchdog
  /// must run.
  bool busy() const {
    return phase_ != phase::idle
           && !(phase_ == phase::running && next_ == granted_);
  }
  /// True if the machine waits for answers to a probe or to a repeated
  /// `configure`. A timeout shorter than the step timeout then suffices.
  bool probing() const { return phase_ == phase::probing || resent_; }
  /// Changes whenever the machine makes progress.
  std::uint64_t progress_count() const { return progress_count_; }
  std::uint64_t generation() const { return generation_; }
  /// First step that is not committed.
  std::uint64_t next() const { return next_; }
  /// Returns the live replicas that have not reported step `next()`. Before the
  /// run starts: the live replicas that have not acknowledged the generation.
  std::vector<std::uint32_t> behind() const;

private:
  enum class phase { idle, configuring, running, probing, aborting };
  struct member {
    /// Generation that the replica has acknowledged.
    std::uint64_t configured_generation = 0;
    std::uint32_t incarnation = 0;
    bool lost = false;
    /// The replica has answered the last probe, or is lost.
    bool answered = false;
    /// The replica's wait report for the last probe is stored.
    bool explained = false;
  };

  template <class T>
  static void add(reaction& out, T x) {
    out.emplace_back(std::in_place_type<T>, std::move(x));
  }
  configure next_configure() const;
  void reconfigure(reaction& out);
  void start(reaction& out);
  void continue_if_configured(reaction& out);
  void fail(reaction& out, failure_report reason);
  void commit_next(reaction& out);
  void grant_more(reaction& out);
  void probe_all(reaction& out, std::uint64_t step);
  std::uint64_t awaited_step() const;
  void abort_for_loss(reaction& out, const failure_report* later = nullptr);
  void on_suspicion(reaction& out, const wait_report& report);
  void conclude_probe(reaction& out);
  void abort_for_suspicion(reaction& out,
                           const failure_report* later = nullptr);
  void abort_for_stall(reaction& out, std::uint64_t timeout_ms);
  void on_late_wait(reaction& out, const failure_report& report);
  void abort_for_late_wait(reaction& out,
                           const failure_report* later = nullptr);
  bool resend_configure(reaction& out);
  bool all_configured() const;
  bool first_answer(const wait_report& report);
  bool all_answered() const;
  bool is_active() const {
    return phase_ == phase::running || phase_ == phase::probing;
  }
  bool is_current(std::uint32_t replica, std::uint32_t incarnation) const;
  bool reported(std::uint32_t replica, std::uint64_t step) const;
  std::vector<std::uint32_t> unconfigured() const;
  failure_report report_of(const failed& failure) const;
  failure_report loss_of(std::uint32_t process, ec code,
                         const std::string& cause) const;
  void add_probe_results(failure_report& report, bool complete) const;

  std::vector<member> members_;
  /// The step window, and the number of steps that are granted together.
  std::uint64_t step_window_, grant_batch_;
  placement placement_;
  std::vector<std::uint32_t> lost_reducers_;
  /// Set while the machine probes after the loss of a process.
  std::optional<failure_report> lost_process_;
  /// The first report that suspects a process, until its step is committed.
  std::optional<wait_report> suspicion_;
  /// Set while the machine probes because a replica's wait has timed out that
  /// names no missing replica: the report of this failure.
  std::optional<failure_report> late_wait_;
  std::uint64_t probed_step_ = 0; ///< Step of the last probe.
  bool resent_ = false;           ///< `configure` was sent a second time.
  phase phase_ = phase::idle;
  std::uint64_t generation_ = 0;
  bool unused_generation_ = true; ///< No step of this generation was granted.
  std::uint64_t first_ = 0, next_ = 0, granted_ = 0, end_ = 0;
  /// First step whose commit the caller has not acknowledged.
  std::uint64_t acknowledged_ = 0;
  /// True: a run starts as soon as all replicas have acknowledged the
  /// generation.
  bool run_pending_ = false;
  /// Reports of steps [next_, next_ + step_window): first index step %
  /// step_window, second index replica.
  std::vector<std::vector<step_metrics>> reports_;
  /// By step modulo `step_window_`: number of sums in each report of the step.
  std::vector<std::size_t> sum_counts_;
  std::vector<std::vector<bool>> reported_;
  std::vector<std::uint32_t> report_counts_;
  std::vector<wait_report> wait_reports_;
  failure_report failure_;
  std::uint64_t progress_count_ = 0;
};

} // namespace troupe::step_commit
