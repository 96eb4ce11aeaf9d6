#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Membership of a job: exactly one process per task, all with the same
/// configuration, complete before the first step. This is the side of the
/// leader, task 0.
///
///   who      P tasks; a process has an incarnation, drawn when it starts
///   messages process: join_request, with its configuration and address
///            leader: admitted, or rejected with a reason; the membership view,
///            when all tasks are taken
///   start    with the leader's own configuration; every request is compared
///            with it
///   on join_request  for a free task, with equal configuration: admitted
///   on lost  before the view is closed: the task is free again
///   end      when every task is taken (`complete`), or when the start timeout
///            elapses: `missing` names the tasks that did not join
///   faults   unknown task; second process for a task whose process is alive;
///            different version, kernels, threads, replicas or options; request
///            after the view was closed -> rejected
namespace troupe::rendezvous {

using troupe::inspect, troupe::serialize;

/// Configuration that must be equal in all processes; otherwise their sums or
/// their messages would differ.
struct process_config {
  std::string version; ///< Version of the program's library.
  std::string kernels; ///< Instruction set level of the processor's kernels.
  std::uint32_t threads = 1;  ///< Threads per replica.
  std::uint32_t replicas = 1; ///< Replicas per process.
  std::string options;        ///< Other options, as text; compared as a whole.
  auto fields() {
    return std::tie(version, kernels, threads, replicas, options);
  }
};

/// Request of a process to join the job.
struct join_request {
  std::uint32_t task = 0;        ///< Index of the task.
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

/// Membership that the leader sends to all processes when the job is complete.
struct membership_view {
  /// Number of the membership; always 1, because it does not change yet.
  std::uint64_t view_id = 0;
  std::vector<member> members; ///< By task.
  auto fields() { return std::tie(view_id, members); }
};

struct admitted {
  bool complete = false; ///< All tasks are taken now.
};
struct rejected {
  std::string reason; ///< Sentence for the logs of both sides.
};
using decision = std::variant<admitted, rejected>;

class state_machine {
public:
  /// @param names names of the tasks, such as "chief 0" and "worker 1". The
  ///              first is the leader, which is a member from the start.
  state_machine(std::vector<std::string> names, const join_request& leader);

  decision on(const join_request& request);

  /// Frees the task of an admitted process that was lost. No effect if the view
  /// is closed, or if the task is held by another incarnation.
  void on_lost(std::uint32_t task, std::uint64_t incarnation);

  bool complete() const;

  /// Closes the membership: from here on no process can join or free its task.
  /// @returns the view to send to all processes.
  /// @pre `complete()`.
  membership_view close();

  /// @returns the names of the tasks that did not join: "worker 1", "worker 1
  ///          and worker 3".
  std::string missing() const;

private:
  std::string describe_difference(const process_config& config,
                                  const std::string& name) const;

  std::vector<std::string> names_;
  process_config config_;
  std::vector<std::optional<member>> tasks_;
  bool closed_ = false;
};

/// @returns "a", "a and b", or "a, b and c".
std::string join_words(const std::vector<std::string>& names);

} // namespace troupe::rendezvous
