#include "troupe/net/cluster/union_resolver.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::net {

namespace {

using list = cluster_spec::list;
using dict = cluster_spec::dict;
using job_parts = std::vector<std::variant<list, dict>>;

dict joined(const job_parts& parts) {
  dict all;
  for (const auto& part : parts)
    for (const auto& address : std::get<list>(part))
      all.emplace(static_cast<task_index>(all.size()), address);
  return all;
}

dict as_dict(const std::variant<list, dict>& part) {
  return std::holds_alternative<dict>(part) ? std::get<dict>(part)
                                            : joined({part});
}

dict merged(const std::string& job, const job_parts& parts) {
  dict all;
  for (const auto& part : parts)
    for (const auto& [index, address] : as_dict(part))
      if (const auto [it, fresh] = all.emplace(index, address); !fresh)
        throw std::invalid_argument(
          "Duplicate task " + std::to_string(index) + " of job \"" + job
          + "\" when clusters are merged: \"" + it->second + "\" and \""
          + address + "\"; give each index once");
  return all;
}

} // namespace

union_resolver::union_resolver(std::vector<part> parts, options own)
  : parts_{std::move(parts)}, own_{std::move(own)} {
  if (parts_.empty() || std::ranges::count(parts_, nullptr) > 0)
    throw std::invalid_argument("A union of resolvers needs at least one, and "
                                "none may be null");
}

net::cluster_spec union_resolver::cluster_spec() const {
  std::map<std::string, job_parts> found;
  for (const auto& part : parts_)
    for (auto& [job, tasks] : part->cluster_spec().as_dict())
      found[job].push_back(tasks);
  std::map<std::string, dict> jobs;
  for (const auto& [job, parts] : found) {
    const bool all_lists = std::ranges::all_of(
      parts, [](const auto& x) { return std::holds_alternative<list>(x); });
    jobs.emplace(job, all_lists ? joined(parts) : merged(job, parts));
  }
  return net::cluster_spec{std::move(jobs)};
}

std::optional<std::string> union_resolver::task_type() const {
  return own_.task_type ? own_.task_type : parts_.front()->task_type();
}

std::optional<task_index> union_resolver::task_id() const {
  return own_.task_id ? own_.task_id : parts_.front()->task_id();
}

std::string union_resolver::master(const master_query& query) const {
  if (query.task_type && query.task_id)
    return master_url(
      cluster_spec().task_address(*query.task_type, *query.task_id),
      query.rpc_layer.value_or(rpc_layer()));
  auto first = query;
  if (!first.rpc_layer)
    first.rpc_layer = own_.rpc_layer;
  return parts_.front()->master(first);
}

std::string union_resolver::rpc_layer() const {
  return own_.rpc_layer ? *own_.rpc_layer : parts_.front()->rpc_layer();
}

std::string union_resolver::environment() const {
  return parts_.front()->environment();
}

} // namespace troupe::net
