#include "troupe/actors/core/failure_text.hpp"

#include "troupe/net/base/text.hpp"

#include <algorithm>

namespace troupe {

namespace {

using std::to_string;

/// Joins names for people: "a", "a and b", or "a, b and c".
std::string join_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

/// Builds the sentence of one report.
class sentence {
public:
  sentence(const failure_report& report, const named_processes& processes)
    : report_{report}, processes_{processes} {}

  std::string text() const {
    auto out = what_happened();
    const auto* separator = report_.kind == failure_kind::stalled ? ": " : "; ";
    for (const auto& part : details()) {
      out += (out.empty() ? "" : separator) + part;
      separator = "; ";
    }
    return out;
  }

  /// Names the collective or update that a role waits for.
  static std::string operation_of(const role_wait& wait) {
    if (wait.current_activity == activity::update)
      return "the update";
    return (wait.current_activity == activity::all_gather
              ? "the gather of bucket "
              : "the sum of bucket ")
           + to_string(wait.bucket);
  }

private:
  using id_list = std::vector<std::uint32_t>;

  // -- names ------------------------------------------------------------------

  bool is_distributed() const { return processes_.names.size() > 1; }

  static std::uint32_t first(const id_list& ids) {
    return ids.empty() ? 0 : ids.front();
  }

  std::string name_of(std::uint32_t process) const {
    return process < processes_.names.size() ? processes_.names[process]
                                             : "process " + to_string(process);
  }

  /// Returns the name of the first process of the report. The name of the
  /// leader includes its role.
  std::string process() const {
    const auto id = first(report_.processes);
    return name_of(id) + (id == 0 ? ", the leader," : "");
  }

  /// Returns "replica 2", or "replica 2 of worker 1" if there are several
  /// processes.
  std::string replica_name(std::uint32_t id) const {
    const auto name = "replica " + to_string(id);
    return is_distributed() && id < processes_.placement.replicas()
             ? name + " of " + name_of(processes_.placement.process_of(id))
             : name;
  }
  std::string replica() const { return replica_name(first(report_.replicas)); }
  std::string reducer() const {
    return "reducer " + to_string(first(report_.replicas));
  }

  std::string process_list() const {
    std::vector<std::string> names;
    for (const auto id : report_.processes)
      names.push_back(name_of(id));
    return join_names(names);
  }

  std::string step() const {
    return step_name(report_.operation, report_.step);
  }
  std::string timeout() const { return to_string(report_.timeout_ms) + " ms"; }
  std::string cause() const {
    return report_.cause.empty() ? "" : ": " + report_.cause;
  }

  /// Describes one of the requested runs.
  std::string request(std::size_t i) const {
    const auto x =
      i < report_.requests.size() ? report_.requests[i] : requested_run{};
    const auto first = user_step_of(x.call, x.first_step, x.first_step);
    const auto begin = first.value_or(x.first_step);
    const auto end = begin + (x.end_step - x.first_step);
    return (first ? "steps [" : "operations [") + to_string(begin) + ", "
           + to_string(end) + ") as its run " + to_string(x.run);
  }
  std::string requester(std::size_t i) const {
    return name_of(i < report_.requests.size() ? report_.requests[i].process
                                               : 0);
  }

  // -- kinds ------------------------------------------------------------------

  static constexpr auto same_order =
    "; all workers must call run, fit, evaluate and save in the same order";

  /// The call of one of the requested runs.
  requesting_call call(std::size_t i) const {
    return i < report_.requests.size() ? report_.requests[i].call
                                       : requesting_call{};
  }

  /// Says what a process has done instead of a run of the others.
  std::string other_request(std::size_t i, bool with_number) const {
    const auto x = call(i);
    if (x.name.empty())
      return "requests " + request(i);
    return "called " + x.name
           + (with_number ? " as call " + to_string(x.number) + " of the job"
                          : "");
  }

  std::string different_requests() const {
    if (are_same(call(0), call(1)))
      return requester(0) + " requests " + request(0) + ", but " + requester(1)
             + " requests " + request(1) + same_order;
    for (const std::size_t i : {0, 1})
      if (const auto why = call(i).failure; !why.empty())
        return "a callback of " + requester(i) + " has thrown: " + why + "; "
               + requester(1 - i) + " meanwhile " + other_request(1 - i, false);
    const bool with_number = call(0).name == call(1).name;
    return requester(0) + " " + other_request(0, with_number) + ", but "
           + requester(1) + " " + other_request(1, with_number)
           + "; all workers must make the same calls in the same order";
  }

  std::string what_happened() const {
    switch (report_.kind) {
      case failure_kind::unspecified:
        return report_.cause;
      case failure_kind::step_failed:
      case failure_kind::wait_timed_out:
      case failure_kind::peer_violation:
      case failure_kind::step_function_unknown:
        return failure_of_replica();
      case failure_kind::replica_lost:
        return replica() + " was lost in " + step() + actor_end();
      case failure_kind::reducer_lost:
        return reducer() + " was lost in " + step() + actor_end();
      case failure_kind::process_lost:
      case failure_kind::process_lost_before_step:
      case failure_kind::process_lost_between_runs:
        return process() + loss_of_process();
      case failure_kind::lanes_lost:
        return replica() + " has lost its lanes to "
               + name_of(first(report_.processes)) + " in " + step() + cause();
      case failure_kind::stalled:
        return step() + " stalled"
               + (report_.timeout_ms > 0 ? " for " + timeout() : "");
      case failure_kind::not_configured:
        return step() + " cannot begin: for " + timeout() + " "
               + replica_list(report_.replicas)
               + " did not acknowledge generation "
               + to_string(report_.generation)
               + " and may still be in an older step";
      case failure_kind::replica_missing:
        return replica() + " is lost; the group cannot run a step without it";
      case failure_kind::reducer_missing:
        return reducer() + " is lost; the group cannot reduce without it";
      case failure_kind::step_not_granted:
        return replica() + " reported " + step() + ", which it was not granted";
      case failure_kind::metrics_differ:
        return replica() + " reported another number of metrics of " + step()
               + " than the other replicas";
      case failure_kind::run_left:
        return requester(0) + " left run " + to_string(report_.run) + " and "
               + other_request(0, false) + same_order;
      case failure_kind::runs_differ:
        return different_requests();
      case failure_kind::run_ended:
        return "run " + to_string(report_.run) + " of " + process_list()
               + " has ended for all other processes";
      case failure_kind::run_not_joined:
        return absent_processes();
      case failure_kind::commit_out_of_order:
        return process() + " violated the protocol: it committed " + step()
               + " where " + step_name(report_.operation, report_.expected_step)
               + " is next";
      case failure_kind::malformed_report:
        return process()
               + " violated the protocol: it sent a malformed report of a "
                 "failure";
      case failure_kind::chief_terminated:
        return "the chief of this replica group has terminated; the group can "
               "run no more steps";
      case failure_kind::chief_silent:
        return "no message from the chief for " + timeout();
      case failure_kind::task_not_run:
        return "for " + timeout() + " " + replica_list(report_.replicas)
               + " did not run the function given to for_each";
      case failure_kind::task_failed:
        return replica_list(report_.replicas) + cause();
      case failure_kind::step_pending:
        return {};
      case failure_kind::view_not_agreed:
        return "the processes agree on view " + to_string(report_.generation)
               + " for " + timeout()
               + (report_.processes.empty()
                    ? ""
                    : "; it goes on without " + process_list());
      case failure_kind::commits_not_taken:
        return process_list() + (report_.processes.size() == 1 ? " is" : " are")
               + " still in the callbacks of " + step()
               + ", and no further step is granted before they return";
      case failure_kind::job_not_joined:
        return process_list() + " did not join yet";
      case failure_kind::no_replica:
      case failure_kind::start_not_joined:
        return "job '" + processes_.job + "' " + start_obstacle();
      case failure_kind::lanes_not_open:
        return process_list()
               + " did not connect to all other processes in time";
      case failure_kind::process_lost_in_start:
        return process_list() + " was lost during the start: "
               + (report_.cause.empty() ? "it has left" : report_.cause);
      case failure_kind::join_rejected:
        return name_of(0) + " rejected " + name_of(processes_.self) + cause();
      case failure_kind::leader_unreachable:
        return report_.cause.empty()
                 ? leader_with_address() + " did not answer"
                 : name_of(processes_.self) + " could not reach "
                     + leader_with_address()
                     + (report_.code == ec::refused ? "" : " for " + timeout())
                     + cause();
      case failure_kind::view_missing:
        return name_of(0) + " did not send the members of the job in time";
      case failure_kind::malformed_view:
        return name_of(0)
               + " violated the protocol: it sent members of the job that "
                 "cannot be right";
      case failure_kind::start_missing:
        return name_of(0) + " did not report in time that all are ready";
    }
    return report_.cause;
  }

  /// Says why the leader cannot begin the job.
  std::string start_obstacle() const {
    if (report_.kind == failure_kind::no_replica)
      return "cannot begin: no process hosts a replica; give one at least 1";
    std::string addresses;
    for (const auto id : report_.processes)
      addresses += (addresses.empty() ? "" : ", ") + address_of(id);
    return (report_.timeout_ms > 0 ? "cannot begin: for " + timeout() + " "
                                   : "waits: ")
           + process_list() + " did not join (" + addresses + ")"
           + report_.cause;
  }

  std::string address_of(std::uint32_t process) const {
    return process < processes_.addresses.size() ? processes_.addresses[process]
                                                 : "?";
  }
  std::string leader_with_address() const {
    return name_of(0) + " at " + address_of(0);
  }

  /// Describes a failure that a replica has reported. In a job of one process,
  /// the text of an exception stands alone.
  std::string failure_of_replica() const {
    const auto inner = reported_cause();
    if (!is_distributed() && !inner.empty())
      return inner;
    return replica() + " failed in " + step()
           + (inner.empty() ? "" : ": " + inner);
  }

  std::string reported_cause() const {
    const auto name = "replica " + to_string(first(report_.replicas));
    switch (report_.kind) {
      case failure_kind::wait_timed_out:
        return name + " waited for " + awaited_operation() + " in " + step()
               + " for " + timeout() + ", the timeout of its call"
               + (report_.waits.empty() || report_.waits[0].missing.empty()
                    ? ""
                    : "; it misses " + replica_list(report_.waits[0].missing));
      case failure_kind::peer_violation:
        return violator() + " violated the protocol" + cause() + ", while "
               + name + " waited for " + awaited_operation() + " in " + step();
      case failure_kind::step_function_unknown:
        return name + " received a request to run the step function '"
               + report_.cause + "', which is not registered in its process";
      default:
        return report_.cause;
    }
  }

  /// Returns the process that violated the protocol, with its replicas.
  std::string violator() const {
    const auto id = first(report_.processes);
    if (id >= processes_.placement.processes())
      return name_of(id);
    return name_of(id) + " ("
           + replica_list(processes_.placement.replicas_of(id)) + ")";
  }

  std::string awaited_operation() const {
    return report_.waits.empty() ? "a collective"
                                 : operation_of(report_.waits.front());
  }

  std::string actor_end() const {
    return report_.cause.empty() ? ""
                                 : ": its actor ended (" + report_.cause + ")";
  }

  std::string loss_of_process() const {
    const bool shut_down = report_.cause.empty();
    if (report_.kind == failure_kind::process_lost_between_runs)
      return (shut_down ? " has shut down between two runs"
                        : " was lost between two runs")
             + cause();
    const bool in_step = report_.kind == failure_kind::process_lost;
    if (shut_down)
      return (in_step ? " has shut down before the end of "
                      : " has shut down before ")
             + step();
    return (in_step ? " was lost in " : " was lost before ") + step() + cause();
  }

  /// Names the processes that did not join a run.
  std::string absent_processes() const {
    if (report_.requests.empty())
      return process_list() + " did not join the run";
    return (call(0).name.empty() ? "" : call(0).name + ": ") + request(0)
           + " cannot begin: for " + timeout() + " " + process_list()
           + " did not join";
  }

  // -- details ----------------------------------------------------------------

  /// Returns what follows the main clause: the waits, the silent replicas and
  /// later failures.
  std::vector<std::string> details() const {
    std::vector<std::string> parts;
    const bool of_replica = report_.kind == failure_kind::wait_timed_out
                            || report_.kind == failure_kind::peer_violation;
    if (!of_replica) // else the main clause contains the wait
      for (const auto& wait : report_.waits)
        parts.push_back(describe(wait));
    if (report_.unlisted_waits > 0)
      parts.push_back(to_string(report_.unlisted_waits)
                      + (report_.unlisted_waits == 1 ? " more role waits"
                                                     : " more roles wait"));
    if (!report_.unresponsive.empty())
      parts.push_back(silence());
    if (report_.kind == failure_kind::step_pending)
      add_pending(parts);
    if (!report_.later_cause.empty())
      parts.push_back(report_.later_cause);
    if (!report_.inside.empty())
      parts.push_back(replica_list(report_.inside)
                      + (report_.inside.size() == 1 ? " is" : " are")
                      + " still inside the caller's function; keep the objects "
                        "that it refers to");
    return parts;
  }

  static std::string describe(const role_wait& wait) {
    const auto role =
      (wait.reducer ? "reducer " : "replica ") + to_string(wait.id);
    const auto operation = operation_of(wait);
    const auto misses = wait.missing.empty()
                          ? ""
                          : ", still missing " + replica_list(wait.missing);
    switch (wait.current_activity) {
      case activity::all_reduce:
      case activity::update:
        return role + " waits for " + operation + misses;
      case activity::all_gather:
        return role + " waits in " + operation + misses;
      case activity::reducing:
        return role + " cannot finish " + operation + misses;
      case activity::computing:
        return role + " is in its step function";
      case activity::idle:
        break;
    }
    return role + " has nothing to do";
  }

  std::string silence() const {
    return replica_list(report_.unresponsive)
           + (report_.unresponsive.size() == 1
                ? " does not answer: it is in the step function, or its "
                  "process is stopped"
                : " do not answer: they are in the step function, or their "
                  "processes are stopped");
  }

  /// Names the replicas that have not reported the step. In a job of one
  /// process, the waits say enough.
  void add_pending(std::vector<std::string>& parts) const {
    for (const auto id : report_.replicas)
      if (parts.empty() || is_distributed())
        parts.push_back(replica_name(id) + " has not reported it");
  }

  const failure_report& report_;
  const named_processes& processes_;
};

/// Collects the missing roles of a report.
class missing_role_list {
public:
  missing_role_list(const named_processes& processes, std::uint64_t since_ms)
    : processes_{processes}, since_ms_{since_ms} {}

  void add_replica(std::uint32_t id, const std::string& operation,
                   std::uint32_t bucket) {
    if (std::ranges::find(all, id, &missing_role::replica) != all.end())
      return;
    const auto& placed = processes_.placement;
    all.push_back(
      {id, id < placed.replicas() ? name_of(placed.process_of(id)) : "?",
       operation, bucket, true, since_ms_});
  }
  void add_process(std::uint32_t id, const std::string& operation) {
    all.push_back({missing_role::none, name_of(id), operation,
                   missing_role::none, true, since_ms_});
  }
  void set_silent(std::uint32_t replica) {
    for (auto& x : all)
      if (x.replica == replica)
        x.responds = false;
  }

  std::vector<missing_role> all;

private:
  std::string name_of(std::uint32_t process) const {
    return process < processes_.names.size() ? processes_.names[process]
                                             : "process " + to_string(process);
  }

  const named_processes& processes_;
  const std::uint64_t since_ms_;
};

/// Returns the operation that waits for the processes of a report. Empty: the
/// report names its processes for another reason.
std::string awaited_of_processes(const failure_report& report) {
  switch (report.kind) {
    case failure_kind::process_lost:
    case failure_kind::process_lost_before_step:
    case failure_kind::lanes_lost:
      return step_name(report.operation, report.step);
    case failure_kind::process_lost_between_runs:
      return "the next run";
    case failure_kind::run_not_joined:
      return report.requests.empty()
               ? "the next run"
               : "run " + to_string(report.requests.front().run);
    case failure_kind::commits_not_taken:
      return "the callbacks of " + step_name(report.operation, report.step);
    case failure_kind::job_not_joined:
    case failure_kind::start_not_joined:
    case failure_kind::lanes_not_open:
      return "the start of the job";
    case failure_kind::chief_silent:
      return "the chief";
    case failure_kind::view_not_agreed:
      return "the agreement on view " + to_string(report.generation);
    default:
      return {};
  }
}

} // namespace

std::vector<missing_role> missing_roles(const failure_report& report,
                                        const named_processes& processes,
                                        std::uint64_t since_ms) {
  missing_role_list out{processes, since_ms};
  if (const auto operation = awaited_of_processes(report); !operation.empty())
    for (const auto p : report.processes)
      out.add_process(p, operation);
  for (const auto& wait : report.waits)
    for (const auto r : wait.missing)
      out.add_replica(r, sentence::operation_of(wait),
                      wait.current_activity == activity::update
                        ? missing_role::none
                        : wait.bucket);
  const auto waits = [&](std::uint32_t replica) {
    return std::ranges::any_of(report.waits, [replica](const role_wait& x) {
      return !x.reducer && x.id == replica
             && x.current_activity != activity::computing;
    });
  };
  if (report.kind == failure_kind::step_pending)
    for (const auto r : report.replicas)
      if (!waits(r))
        out.add_replica(r, "its step function", missing_role::none);
  if (report.kind == failure_kind::stalled
      || report.kind == failure_kind::step_pending)
    for (const auto& wait : report.waits)
      if (!wait.reducer && wait.current_activity == activity::computing)
        out.add_replica(wait.id, "its step function", missing_role::none);
  for (const auto r : report.unresponsive) {
    out.add_replica(r, "its step function", missing_role::none);
    out.set_silent(r);
  }
  return std::move(out.all);
}

std::string step_name(const std::string& operation, std::uint64_t step) {
  if (operation.empty())
    return "step " + to_string(step);
  return net::printable(operation) + " (operation " + to_string(step) + ")";
}

std::string replica_list(std::span<const std::uint32_t> ids) {
  std::string text = ids.size() == 1 ? "replica " : "replicas ";
  for (std::size_t i = 0; i < ids.size(); ++i)
    text += (i > 0 ? ", " : "") + to_string(ids[i]);
  return text;
}

std::string describe(const failure_report& report,
                     const named_processes& processes) {
  return sentence{report, processes}.text();
}

job_error to_job_error(failure_report report,
                       const named_processes& processes) {
  for (auto* text : {&report.cause, &report.later_cause})
    *text = net::printable_lines(*text);
  auto text = net::printable_lines(describe(report, processes));
  return {std::move(report), text};
}

} // namespace troupe
