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

// Functions of a cluster and one of its tasks. Types are chief, worker, ps and
// evaluator. There is at most one chief and at most one evaluator; the
// evaluator need not be in the cluster. Each function checks this as
// `check_task` does.

/// Checks that the task belongs to the cluster.
/// @errors throws std::invalid_argument with a sentence for people.
void check_task(const cluster_spec& cluster, const cluster_task& task);

/// True for the chief, the evaluator, worker 0 if there is no chief, and a
/// process without a cluster. Such a process writes the files, for example.
bool is_chief(const cluster_spec& cluster, const cluster_task& task);

/// @returns the rank among the tasks that take part in sums: the chief is 0,
///          workers follow. The evaluator is 0.
/// @errors throws std::invalid_argument for a ps, which has none.
std::size_t id_in_cluster(const cluster_spec& cluster,
                          const cluster_task& task);

/// @returns the number of tasks that take part in sums: chief and workers; 1
///          for the evaluator.
/// @errors throws std::invalid_argument for a ps.
std::size_t worker_count(const cluster_spec& cluster, const cluster_task& task);

/// @returns the task that leads the collectives: the chief, or worker 0. Empty
///          for an empty cluster and for the evaluator.
std::optional<cluster_task> collective_leader(const cluster_spec& cluster,
                                              const cluster_task& task);

/// @returns the task that all processes connect to: ps 0, else the chief, else
///          worker 0.
std::optional<cluster_task> coordination_leader(const cluster_spec& cluster);

} // namespace troupe::net
