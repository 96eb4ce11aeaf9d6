#include "troupe/net/cluster/tf_config_resolver.hpp"

#include "troupe/net/cluster/tf_config.hpp"

#include <cstdlib>
#include <stdexcept>

namespace troupe::net {

namespace {

tf_config_values current_values() {
  const auto* text = std::getenv("TF_CONFIG");
  return text && *text ? parse_tf_config(text) : tf_config_values{};
}

bool is_alone(const cluster_spec& x) {
  const auto jobs = x.jobs();
  return jobs.empty() || (jobs.size() == 1 && x.num_tasks(jobs.front()) == 1);
}

} // namespace

net::cluster_spec tf_config_resolver::cluster_spec() const {
  return current_values().cluster;
}

std::optional<std::string> tf_config_resolver::task_type() const {
  return overrides_.task_type ? overrides_.task_type
                              : current_values().task_type;
}

std::optional<task_index> tf_config_resolver::task_id() const {
  return overrides_.task_id ? overrides_.task_id : current_values().task_id;
}

std::string tf_config_resolver::master(const master_query& query) const {
  const auto values = current_values();
  if (values.session_master)
    return *values.session_master;
  if (is_alone(values.cluster))
    return "";
  const auto type = query.task_type ? query.task_type : task_type();
  const auto id = query.task_id ? query.task_id : task_id();
  if (!type || !id)
    throw std::invalid_argument("TF_CONFIG: task is missing, so there is no "
                                "master; give {\"type\": \"worker\", "
                                "\"index\": 0}");
  return master_url(values.cluster.task_address(*type, *id),
                    query.rpc_layer.value_or(rpc_layer()));
}

std::string tf_config_resolver::rpc_layer() const {
  return overrides_.rpc_layer ? *overrides_.rpc_layer
                              : current_values().rpc_layer;
}

std::string tf_config_resolver::environment() const {
  return overrides_.environment ? *overrides_.environment
                                : current_values().environment;
}

} // namespace troupe::net
