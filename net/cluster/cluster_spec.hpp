#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace troupe::net {

/// Index of a task within its job, from 0.
using task_index = std::uint32_t;

/// Addresses ("host:port") of the tasks of each job ("chief", "worker", ...).
/// Empty: local, the cluster is this process alone.
class cluster_spec {
public:
  using list = std::vector<std::string>;
  using dict = std::map<task_index, std::string>;

  cluster_spec() = default;
  /// Tasks are numbered from 0: {{"worker", {"a:1", "b:1"}}} has tasks 0 and 1.
  explicit cluster_spec(const std::map<std::string, list>& jobs);
  /// Only some of the tasks are known: {{"worker", {{1, "b:1"}}}}.
  explicit cluster_spec(std::map<std::string, dict> jobs);

  /// True if there are no jobs.
  bool empty() const { return jobs_.empty(); }

  /// @returns a list for a job whose tasks are 0 to n - 1, a dict for any other
  ///          job.
  std::map<std::string, std::variant<list, dict>> as_dict() const;

  /// @returns the names in alphabetical order.
  list jobs() const;
  bool has(const std::string& job) const { return jobs_.contains(job); }

  // Each throws std::invalid_argument, "No such job in cluster: ..." or "No
  // task with index ... in job ...", with the existing jobs or tasks.
  std::size_t num_tasks(const std::string& job) const;
  std::vector<task_index> task_indices(const std::string& job) const;
  const std::string& task_address(const std::string& job,
                                  task_index index) const;
  const dict& tasks(const std::string& job) const;

  friend bool operator==(const cluster_spec&, const cluster_spec&) = default;

private:
  std::map<std::string, dict> jobs_;
};

} // namespace troupe::net
