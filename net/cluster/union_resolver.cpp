#include "troupe/net/cluster/union_resolver.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::net {

namespace {

using list = cluster_spec::list;
using dict = cluster_spec::dict;
using job_sources = std::vector<std::variant<list, dict>>;

dict concatenated(const job_sources& sources) {
  dict result;
  for (const auto& source : sources)
    for (const auto& address : std::get<list>(source))
      result.emplace(static_cast<task_index>(result.size()), address);
  return result;
}

dict as_dict(const std::variant<list, dict>& source) {
  return std::holds_alternative<dict>(source) ? std::get<dict>(source)
                                              : concatenated({source});
}

dict merged(const std::string& job, const job_sources& sources) {
  dict result;
  for (const auto& source : sources)
    for (const auto& [index, address] : as_dict(source))
      if (const auto [it, fresh] = result.emplace(index, address); !fresh)
        throw std::invalid_argument(
          "Duplicate task " + std::to_string(index) + " of job \"" + job
          + "\" when clusters are merged: \"" + it->second + "\" and \""
          + address + "\"; give each index once");
  return result;
}

} // namespace

union_resolver::union_resolver(std::vector<source> sources, options overrides)
  : sources_{std::move(sources)}, overrides_{std::move(overrides)} {
  if (sources_.empty() || std::ranges::count(sources_, nullptr) > 0)
    throw std::invalid_argument("A union of resolvers needs at least one, and "
                                "none may be null");
}

net::cluster_spec union_resolver::cluster_spec() const {
  std::map<std::string, job_sources> found;
  for (const auto& source : sources_)
    for (auto& [job, tasks] : source->cluster_spec().as_dict())
      found[job].push_back(tasks);
  std::map<std::string, dict> jobs;
  for (const auto& [job, sources] : found) {
    const bool all_lists = std::ranges::all_of(
      sources, [](const auto& x) { return std::holds_alternative<list>(x); });
    jobs.emplace(job, all_lists ? concatenated(sources) : merged(job, sources));
  }
  return net::cluster_spec{std::move(jobs)};
}

std::optional<std::string> union_resolver::task_type() const {
  return overrides_.task_type ? overrides_.task_type
                              : sources_.front()->task_type();
}

std::optional<task_index> union_resolver::task_id() const {
  return overrides_.task_id ? overrides_.task_id : sources_.front()->task_id();
}

std::string union_resolver::master(const master_query& query) const {
  if (query.task_type && query.task_id)
    return master_url(
      cluster_spec().task_address(*query.task_type, *query.task_id),
      query.rpc_layer.value_or(rpc_layer()));
  auto first = query;
  if (!first.rpc_layer)
    first.rpc_layer = overrides_.rpc_layer;
  return sources_.front()->master(first);
}

std::string union_resolver::rpc_layer() const {
  return overrides_.rpc_layer ? *overrides_.rpc_layer
                              : sources_.front()->rpc_layer();
}

std::string union_resolver::environment() const {
  return sources_.front()->environment();
}

} // namespace troupe::net
