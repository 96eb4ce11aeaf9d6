#pragma once

#include "troupe/net/cluster/cluster_resolver.hpp"

namespace troupe::net {

/// Reads the environment variable TF_CONFIG in every call (format:
/// `parse_tf_config`). Unset or empty: local, without a task.
class tf_config_resolver : public cluster_resolver {
public:
  /// Values that override those of the variable.
  struct options {
    std::optional<std::string> task_type{};
    std::optional<task_index> task_id{};
    std::optional<std::string> rpc_layer{};
    std::optional<std::string> environment{};
  };

  tf_config_resolver() = default;
  explicit tf_config_resolver(options overrides)
    : overrides_{std::move(overrides)} {}

  net::cluster_spec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<task_index> task_id() const override;
  /// @returns "session_master" if it is set; "" in a cluster of at most one
  ///          task; else the address of the query's task or of this process.
  /// @errors throws std::invalid_argument if there is no task, or if the
  ///         cluster does not have it.
  std::string master(const master_query& query = {}) const override;
  std::string rpc_layer() const override;
  std::string environment() const override;

private:
  options overrides_;
};

} // namespace troupe::net

namespace troupe {

/// The cluster and this process's task from TF_CONFIG, for a strategy over
/// several processes.
inline net::tf_config_resolver tf_config() {
  return {};
}

} // namespace troupe
