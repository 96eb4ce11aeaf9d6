#include "troupe/net/cluster/cluster_task.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace troupe::net {

namespace {

constexpr std::array<const char*, 4> types{"chief", "worker", "ps",
                                           "evaluator"};

std::size_t task_count(const cluster_spec& cluster, const std::string& job) {
  return cluster.has(job) ? cluster.num_tasks(job) : 0;
}

void check_cluster(const cluster_spec& cluster) {
  for (const auto* job : {"chief", "evaluator"})
    if (const auto n = task_count(cluster, job); n > 1)
      throw std::invalid_argument(
        "There must be at most one " + std::string{job} + " in a cluster, not "
        + std::to_string(n) + "; make the others workers");
}

[[noreturn]] void refuse_ps(const char* what) {
  throw std::invalid_argument(std::string{"A ps has no "} + what
                              + ": it takes part in no sum; use a chief or a "
                                "worker");
}

/// Returns task 0 of a job. None: the job has no task.
std::optional<cluster_task> first_of(const cluster_spec& cluster,
                                     const std::string& job) {
  if (task_count(cluster, job) == 0)
    return {};
  return cluster_task{job, 0};
}

std::optional<cluster_task> leader_of(const cluster_spec& cluster) {
  const auto chief = first_of(cluster, "chief");
  return chief ? chief : first_of(cluster, "worker");
}

} // namespace

std::string to_string(const cluster_task& x) {
  return x.type + " " + std::to_string(x.id);
}

void check_task(const cluster_spec& cluster, const cluster_task& task) {
  if (std::ranges::find(types, task.type) == types.end())
    throw std::invalid_argument("Unrecognized task type \"" + task.type
                                + "\"; give chief, worker, ps or evaluator");
  check_cluster(cluster);
  if (cluster.has(task.type))
    cluster.task_address(task.type, task.id);
  else if (task.type == "evaluator" && task.id != 0)
    throw std::invalid_argument("There must be at most one evaluator; "
                                "its index is 0, not "
                                + std::to_string(task.id));
  else if (!cluster.empty() && task.type != "evaluator")
    cluster.tasks(task.type);
}

bool is_chief(const cluster_spec& cluster, const cluster_task& task) {
  check_task(cluster, task);
  return cluster.empty() || task.type == "chief" || task.type == "evaluator"
         || (task.type == "worker" && task.id == 0
             && !task_count(cluster, "chief"));
}

std::size_t id_in_cluster(const cluster_spec& cluster,
                          const cluster_task& task) {
  check_task(cluster, task);
  if (task.type == "ps")
    refuse_ps("id in a cluster");
  if (task.type != "worker" || cluster.empty())
    return 0;
  return task.id + task_count(cluster, "chief");
}

std::size_t worker_count(const cluster_spec& cluster,
                         const cluster_task& task) {
  check_task(cluster, task);
  if (task.type == "ps")
    refuse_ps("count of workers");
  if (task.type == "evaluator" || cluster.empty())
    return 1;
  return task_count(cluster, "chief") + task_count(cluster, "worker");
}

std::optional<cluster_task> collective_leader(const cluster_spec& cluster,
                                              const cluster_task& task) {
  check_task(cluster, task);
  if (task.type == "evaluator")
    return {};
  return leader_of(cluster);
}

std::optional<cluster_task> coordination_leader(const cluster_spec& cluster) {
  check_cluster(cluster);
  const auto ps = first_of(cluster, "ps");
  return ps ? ps : leader_of(cluster);
}

} // namespace troupe::net
