#pragma once

#include "troupe/net/cluster/cluster_resolver.hpp"

namespace troupe::net {

/// A resolver with the cluster and task that the program passes to it.
class simple_resolver : public cluster_resolver {
public:
  struct options {
    std::string master{};
    std::optional<std::string> task_type{};
    std::optional<task_index> task_id{};
    std::string rpc_layer{};
    std::string environment{};
  };

  explicit simple_resolver(net::cluster_spec cluster)
    : simple_resolver{std::move(cluster), options{}} {}
  /// @errors throws std::invalid_argument if the cluster does not have the
  ///         task.
  simple_resolver(net::cluster_spec cluster, options values);

  net::cluster_spec cluster_spec() const override { return cluster_; }
  std::optional<std::string> task_type() const override {
    return options_.task_type;
  }
  std::optional<task_index> task_id() const override {
    return options_.task_id;
  }
  /// Returns the address of the query's task. If the query has no type or no
  /// index, returns `options::master`.
  std::string master(const master_query& query = {}) const override;
  std::string rpc_layer() const override { return options_.rpc_layer; }
  std::string environment() const override { return options_.environment; }

private:
  net::cluster_spec cluster_;
  options options_;
};

} // namespace troupe::net
