#pragma once

#include "troupe/net/cluster/cluster_resolver.hpp"

namespace troupe::net {

/// Reads the environment variable TF_CONFIG, in every call anew
/// (`parse_tf_config` has its format); unset or empty: local, and no task.
class tf_config_resolver : public cluster_resolver {
public:
  /// These take the place of what the variable says.
  struct options {
    std::optional<std::string> task_type{};
    std::optional<task_index> task_id{};
    std::optional<std::string> rpc_layer{};
    std::optional<std::string> environment{};
  };

  tf_config_resolver() = default;
  explicit tf_config_resolver(options own) : own_{std::move(own)} {}

  net::cluster_spec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<task_index> task_id() const override;
  /// "session_master" if there is one; "" in a cluster of at most one task;
  /// else the address of the task that is asked for, or this process's.
  /// @errors throws std::invalid_argument if it has no task, or the cluster
  ///         has not that task.
  std::string master(const master_query& query = {}) const override;
  std::string rpc_layer() const override;
  std::string environment() const override;

private:
  options own_;
};

} // namespace troupe::net

namespace troupe {

/// The cluster and this process's task as TF_CONFIG says, for a strategy over
/// processes.
inline net::tf_config_resolver tf_config() {
  return {};
}

} // namespace troupe
