#pragma once

#include "troupe/net/cluster/cluster_spec.hpp"

#include <optional>

namespace troupe::net {

/// One process of a cluster: "worker", 1.
struct cluster_task {
  std::string type;
  task_index id = 0;

  friend auto operator<=>(const cluster_task&, const cluster_task&) = default;
};

/// "worker 1"
std::string to_string(const cluster_task& x);

// What a cluster is to one of its tasks. Types are chief, worker, ps and
// evaluator; at most one task is chief, and one evaluator, which need not be in
// the cluster. Each function throws std::invalid_argument with a sentence if
// that is not so, as `check_task` does.

/// Refuses a task that the cluster does not have, or that has no place in one.
void check_task(const cluster_spec& cluster, const cluster_task& task);

/// The chief, the evaluator, worker 0 where there is no chief, and a process
/// that is all there is: who writes files, for instance.
bool is_chief(const cluster_spec& cluster, const cluster_task& task);

/// A place among those that sum up: the chief's is 0, then come the workers.
/// The evaluator is on its own: 0. @errors a ps has none.
std::size_t id_in_cluster(const cluster_spec& cluster,
                          const cluster_task& task);

/// How many sum up: chief and workers; 1 for the evaluator. @errors as above.
std::size_t worker_count(const cluster_spec& cluster, const cluster_task& task);

/// Where those that sum up meet: the chief, or worker 0. None in an empty
/// cluster and for the evaluator.
std::optional<cluster_task> collective_leader(const cluster_spec& cluster,
                                              const cluster_task& task);

/// Where all of them meet: ps 0, else the chief, else worker 0.
std::optional<cluster_task> coordination_leader(const cluster_spec& cluster);

} // namespace troupe::net
