#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace troupe::net {

/// Which one of a job's tasks: from 0.
using task_index = std::uint32_t;

/// The tasks of each job ("chief", "worker", ...), and the address of each
/// task's process: "host:port". Empty: local, this process is all there is.
class cluster_spec {
public:
  using list = std::vector<std::string>;
  using dict = std::map<task_index, std::string>;

  cluster_spec() = default;
  /// {{"worker", {"a:1", "b:1"}}}: tasks 0 and 1.
  explicit cluster_spec(const std::map<std::string, list>& jobs);
  /// Only some of the tasks are known: {{"worker", {{1, "b:1"}}}}.
  explicit cluster_spec(std::map<std::string, dict> jobs);

  /// Whether there are no jobs.
  bool empty() const { return jobs_.empty(); }

  /// A list for a job whose tasks are 0 to n - 1, a dict for any other.
  std::map<std::string, std::variant<list, dict>> as_dict() const;

  /// In alphabetical order.
  list jobs() const;
  bool has(const std::string& job) const { return jobs_.contains(job); }

  // Each throws std::invalid_argument, "No such job in cluster: ..." or "No
  // task with index ... in job ...", with what there is.
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
