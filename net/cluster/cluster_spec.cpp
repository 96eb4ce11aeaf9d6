#include "troupe/net/cluster/cluster_spec.hpp"

#include <stdexcept>

namespace troupe::net {

namespace {

bool is_dense(const cluster_spec::dict& tasks) {
  return tasks.empty() || tasks.rbegin()->first == tasks.size() - 1;
}

std::string names_of(const cluster_spec& cluster) {
  std::string text;
  for (const auto& job : cluster.jobs())
    text += (text.empty() ? "" : ", ") + job;
  return text.empty() ? "none" : text;
}

/// Formats the indices of a job's tasks as "0 to 3" or "0, 1, 5", with at most
/// eight indices.
std::string indices_of(const cluster_spec::dict& tasks) {
  if (tasks.size() > 1 && is_dense(tasks))
    return "0 to " + std::to_string(tasks.size() - 1);
  std::string text;
  for (int left = 8; const auto& [index, address] : tasks) {
    if (left-- == 0)
      return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(index);
  }
  return text.empty() ? "none" : text;
}

} // namespace

cluster_spec::cluster_spec(const std::map<std::string, list>& jobs) {
  for (const auto& [job, addresses] : jobs) {
    auto& tasks = jobs_[job];
    for (const auto& address : addresses)
      tasks.emplace(static_cast<task_index>(tasks.size()), address);
  }
}

cluster_spec::cluster_spec(std::map<std::string, dict> jobs)
  : jobs_{std::move(jobs)} {}

std::map<std::string, std::variant<cluster_spec::list, cluster_spec::dict>>
cluster_spec::as_dict() const {
  std::map<std::string, std::variant<list, dict>> result;
  for (const auto& [job, tasks] : jobs_) {
    list dense;
    for (const auto& [index, address] : tasks)
      dense.push_back(address);
    if (is_dense(tasks))
      result.emplace(job, std::move(dense));
    else
      result.emplace(job, tasks);
  }
  return result;
}

cluster_spec::list cluster_spec::jobs() const {
  list names;
  for (const auto& [job, tasks] : jobs_)
    names.push_back(job);
  return names;
}

const cluster_spec::dict& cluster_spec::tasks(const std::string& job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end())
    throw std::invalid_argument("No such job in cluster: \"" + job
                                + "\"; there is " + names_of(*this));
  return found->second;
}

std::size_t cluster_spec::num_tasks(const std::string& job) const {
  return tasks(job).size();
}

std::vector<task_index>
cluster_spec::task_indices(const std::string& job) const {
  std::vector<task_index> indices;
  for (const auto& [index, address] : tasks(job))
    indices.push_back(index);
  return indices;
}

const std::string& cluster_spec::task_address(const std::string& job,
                                              task_index index) const {
  const auto& job_tasks = tasks(job);
  const auto found = job_tasks.find(index);
  if (found == job_tasks.end())
    throw std::invalid_argument("No task with index " + std::to_string(index)
                                + " in job \"" + job + "\"; there is "
                                + indices_of(job_tasks));
  return found->second;
}

} // namespace troupe::net
