#pragma once

#include "troupe/net/cluster/cluster_spec.hpp"

#include <optional>

namespace troupe::net {

/// One process of a cluster, such as task 1 of job "worker".
struct cluster_task {
  std::string type;
  task_index id = 0;

  friend auto operator<=>(const cluster_task&, const cluster_task&) = default;
};

/// Formats as "worker 1".
std::string to_string(const cluster_task& x);

// The functions below take a cluster and one of its tasks. The type of a task
// is chief, worker, ps (parameter server) or evaluator. A cluster has at most
// one chief and at most one evaluator. An evaluator need not be listed in the
// cluster. Each function throws as `check_task` does if its arguments violate
// these rules.

/// Checks that the task belongs to the cluster. An empty cluster has every
/// task.
/// @errors throws std::invalid_argument with a sentence.
void check_task(const cluster_spec& cluster, const cluster_task& task);

/// True if the task is the chief or the evaluator. Without a chief, also true
/// for worker 0. In an empty cluster, true for every task. A task for which the
/// function returns true has the duties of a chief, such as to write
/// checkpoints.
bool is_chief(const cluster_spec& cluster, const cluster_task& task);

/// Returns the rank among the tasks that take part in collectives. The chief
/// has rank 0, and the workers follow. The evaluator, which takes part in none,
/// has rank 0.
/// @errors throws std::invalid_argument for a ps, which has no rank.
std::size_t id_in_cluster(const cluster_spec& cluster,
                          const cluster_task& task);

/// Returns the number of tasks that take part in collectives: chief and
/// workers. For the evaluator, and in an empty cluster, it returns 1.
/// @errors throws std::invalid_argument for a ps.
std::size_t worker_count(const cluster_spec& cluster, const cluster_task& task);

/// Returns the task that leads the collectives: the chief, or worker 0 if there
/// is no chief. None: the cluster is empty, or the task is the evaluator.
std::optional<cluster_task> collective_leader(const cluster_spec& cluster,
                                              const cluster_task& task);

/// Returns the task to which all processes connect: ps 0, else the chief, else
/// worker 0. None: the cluster has none of them.
std::optional<cluster_task> coordination_leader(const cluster_spec& cluster);

} // namespace troupe::net
