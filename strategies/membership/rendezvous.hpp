#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Admits one process for each task of a job before the first step; all
/// processes must have equal configurations. The state machine is the side of
/// the leader, task 0.
///
///   who      P tasks; each process draws a random incarnation when it starts
///   messages process: join_request, with its configuration and address
///            leader: admitted, or rejected with a reason; the membership view,
///            when every task is taken
///   start    with the leader's configuration; the configuration of every
///            request is compared with it
///   on join_request  for a free task, with equal configuration: admitted
///   on lost  if the view is not closed yet: the task of the lost process is
///            free again
///   end      when every task is taken (`complete`), or when the start timeout
///            elapses: `missing` names the tasks that no process has taken
///   faults   unknown task; second process for a task whose process is alive;
///            different version, kernels, threads, replicas or options; request
///            after the view was closed -> rejected
namespace troupe::rendezvous {

using troupe::inspect, troupe::serialize;

/// Configuration that must be equal in all processes; otherwise their sums or
/// their messages would differ.
struct process_config {
  std::string version;        ///< Version of this library.
  std::string kernels;        ///< Instruction set of the kernels.
  std::uint32_t threads = 1;  ///< Threads per replica.
  std::uint32_t replicas = 1; ///< Replicas per process.
  std::string options;        ///< All other options as one text.
  auto fields() {
    return std::tie(version, kernels, threads, replicas, options);
  }
};

/// Request of a process to join the job.
struct join_request {
  std::uint32_t task = 0;        ///< Task that the process takes.
  std::uint64_t incarnation = 0; ///< Drawn at random when the process starts.
  std::string host;       ///< Host at which peers connect to the process.
  std::uint16_t port = 0; ///< Port at which peers connect to the process.
  process_config config;  ///< Configuration of the process.
  auto fields() { return std::tie(task, incarnation, host, port, config); }
};

/// A process that was admitted. The fields are copied from its join request.
struct member {
  std::uint64_t incarnation = 0;
  std::string host;
  std::uint16_t port = 0;
  auto fields() { return std::tie(incarnation, host, port); }
};

/// Membership of the job. The leader sends it to all processes when every task
/// is taken.
struct membership_view {
  /// Number of the membership. Always 1, because the membership of a job does
  /// not change.
  std::uint64_t view_id = 0;
  std::vector<member> members; ///< Processes, by task.
  auto fields() { return std::tie(view_id, members); }
};

struct admitted {
  bool complete = false; ///< Every task is taken now.
};
struct rejected {
  std::string reason; ///< Sentence for the logs of the process and the leader.
};
using decision = std::variant<admitted, rejected>;

class state_machine {
public:
  /// @param names names of the tasks, such as "chief 0" and "worker 1". The
  ///              leader has the first task from the start.
  state_machine(std::vector<std::string> names, const join_request& leader);

  decision on(const join_request& request);

  /// Frees the task of an admitted process that was lost. No effect if the view
  /// is closed, or if the task is held by another incarnation.
  void on_lost(std::uint32_t task, std::uint64_t incarnation);

  bool complete() const;

  /// Closes the membership: no process can join after this call, and the task
  /// of a lost process stays taken.
  /// @returns the view to send to all processes.
  /// @pre `complete()`.
  membership_view close();

  /// Returns the names of the tasks that no process has taken, such as "worker
  /// 1 and worker 3".
  std::string missing() const;

private:
  std::string describe_difference(const process_config& config,
                                  const std::string& name) const;

  std::vector<std::string> names_;
  process_config config_;
  std::vector<std::optional<member>> tasks_;
  bool closed_ = false;
};

/// Joins names for people: "a", "a and b", or "a, b and c".
std::string join_words(const std::vector<std::string>& names);

} // namespace troupe::rendezvous
