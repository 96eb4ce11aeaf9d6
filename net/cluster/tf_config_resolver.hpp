#pragma once

#include "troupe/net/cluster/cluster_resolver.hpp"

namespace troupe::net {

/// A resolver that reads the environment variable TF_CONFIG in every call.
/// `parse_tf_config` describes the format. If the variable is unset or empty,
/// the cluster is empty and the task is not known.
class tf_config_resolver : public cluster_resolver {
public:
  /// Values that are used instead of those in TF_CONFIG.
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
  /// Returns "session_master" if it is set, and "" in a cluster of at most one
  /// task. Otherwise it returns the address of the query's task, by default the
  /// task of this process.
  /// @errors throws std::invalid_argument if the task is not known or not in
  ///         the cluster.
  std::string master(const master_query& query = {}) const override;
  std::string rpc_layer() const override;
  std::string environment() const override;

private:
  options overrides_;
};

} // namespace troupe::net

namespace troupe {

/// Returns a resolver that reads TF_CONFIG. A strategy over several processes
/// takes the resolver as its argument.
inline net::tf_config_resolver tf_config() {
  return {};
}

} // namespace troupe
