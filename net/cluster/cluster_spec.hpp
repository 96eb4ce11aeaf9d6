#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace troupe::net {

/// Index of a task within its job. Indices start at 0.
using task_index = std::uint32_t;

/// The addresses ("host:port") of a cluster's tasks, grouped by job ("chief",
/// "worker", ...). Empty: the cluster is this process alone.
class cluster_spec {
public:
  using list = std::vector<std::string>;
  using dict = std::map<task_index, std::string>;

  cluster_spec() = default;
  /// Makes a spec whose tasks are numbered from 0 in each job: {{"worker",
  /// {"a:1", "b:1"}}} has tasks 0 and 1.
  explicit cluster_spec(const std::map<std::string, list>& jobs);
  /// Makes a spec with the given indices, if only some tasks are known:
  /// {{"worker", {{1, "b:1"}}}} has task 1.
  explicit cluster_spec(std::map<std::string, dict> jobs);

  /// True if there are no jobs.
  bool empty() const { return jobs_.empty(); }

  /// Returns the addresses of each job: a list if the tasks are 0 to n - 1,
  /// else a dict from index to address.
  std::map<std::string, std::variant<list, dict>> as_dict() const;

  /// Returns the names of the jobs in alphabetical order.
  list jobs() const;
  bool has(const std::string& job) const { return jobs_.contains(job); }

  // The functions below throw std::invalid_argument if the job or task does not
  // exist. The text names the existing jobs or tasks.
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
