#include "troupe/net/cluster/tf_config_resolver.hpp"

#include "troupe/net/cluster/tf_config.hpp"

#include <cstdlib>
#include <stdexcept>

namespace troupe::net {

namespace {

tf_settings settings() {
  const auto* text = std::getenv("TF_CONFIG");
  return text && *text ? parse_tf_config(text) : tf_settings{};
}

bool is_alone(const cluster_spec& x) {
  const auto jobs = x.jobs();
  return jobs.empty() || (jobs.size() == 1 && x.num_tasks(jobs.front()) == 1);
}

} // namespace

net::cluster_spec tf_config_resolver::cluster_spec() const {
  return settings().cluster;
}

std::optional<std::string> tf_config_resolver::task_type() const {
  return own_.task_type ? own_.task_type : settings().task_type;
}

std::optional<task_index> tf_config_resolver::task_id() const {
  return own_.task_id ? own_.task_id : settings().task_id;
}

std::string tf_config_resolver::master(const master_query& query) const {
  const auto given = settings();
  if (given.session_master)
    return *given.session_master;
  if (is_alone(given.cluster))
    return "";
  const auto type = query.task_type ? query.task_type : task_type();
  const auto id = query.task_id ? query.task_id : task_id();
  if (!type || !id)
    throw std::invalid_argument("TF_CONFIG: task is missing, so there is no "
                                "master; give {\"type\": \"worker\", "
                                "\"index\": 0}");
  return master_url(given.cluster.task_address(*type, *id),
                    query.rpc_layer.value_or(rpc_layer()));
}

std::string tf_config_resolver::rpc_layer() const {
  return own_.rpc_layer ? *own_.rpc_layer : settings().rpc_layer;
}

std::string tf_config_resolver::environment() const {
  return own_.environment ? *own_.environment : settings().environment;
}

} // namespace troupe::net
