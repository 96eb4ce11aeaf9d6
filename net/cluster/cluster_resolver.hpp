#pragma once

#include "troupe/net/cluster/cluster_task.hpp"

namespace troupe::net {

/// Selects a task's address and its form. Fields that are not set default to
/// the resolver's own values.
struct master_query {
  std::optional<std::string> task_type{};
  std::optional<task_index> task_id{};
  std::optional<std::string> rpc_layer{};
};

/// Describes the cluster and this process's task. Each launcher of jobs (a
/// batch system, an orchestrator) has one implementation in a file of its own.
///
/// Each function throws std::invalid_argument with a sentence for people if its
/// input is invalid. Each call may read the input again.
class cluster_resolver {
public:
  virtual ~cluster_resolver() = default;

  /// Empty: the cluster is this process alone.
  virtual net::cluster_spec cluster_spec() const = 0;
  /// Task type of this process. Empty: not known.
  virtual std::optional<std::string> task_type() const = 0;
  /// Task index of this process. Empty: not known.
  virtual std::optional<task_index> task_id() const = 0;
  /// @returns "", "host:port" or "layer://host:port": the address that a client
  ///          connects to.
  virtual std::string master(const master_query& query = {}) const = 0;
  /// @returns "" if no layer is set.
  virtual std::string rpc_layer() const = 0;
  /// @returns "" if no environment is set.
  virtual std::string environment() const = 0;

  /// @returns this process's task if both type and index are known.
  std::optional<cluster_task> task() const;

protected:
  cluster_resolver() = default;
  cluster_resolver(const cluster_resolver&) = default;
  cluster_resolver& operator=(const cluster_resolver&) = default;
};

/// @returns "grpc://host:port"; the address unchanged if it or the layer is
///          empty.
std::string master_url(const std::string& address,
                       const std::string& rpc_layer);

} // namespace troupe::net
