#pragma once

#include "troupe/net/cluster/cluster_task.hpp"

namespace troupe::net {

/// Argument of `cluster_resolver::master`. The function returns the address of
/// this task, with the RPC layer before it if there is one:
/// "layer://host:port". For a field that is not set, each kind of resolver has
/// its own default.
struct master_query {
  std::optional<std::string> task_type{};
  std::optional<task_index> task_id{};
  std::optional<std::string> rpc_layer{};
};

/// Describes the cluster and the task of this process. Each way to start a job,
/// such as a batch system, has its own subclass.
///
/// Each call may read the resolver's source (such as an environment variable)
/// again. It throws std::invalid_argument with a sentence if the source is
/// invalid.
class cluster_resolver {
public:
  virtual ~cluster_resolver() = default;

  /// Returns the tasks of the cluster. Empty: the cluster is this process
  /// alone.
  virtual net::cluster_spec cluster_spec() const = 0;
  /// Returns the task type of this process, such as "worker". None: it is not
  /// known.
  virtual std::optional<std::string> task_type() const = 0;
  /// Returns the task index of this process. None: it is not known.
  virtual std::optional<task_index> task_id() const = 0;
  /// Returns the address to which a client connects: "host:port",
  /// "layer://host:port", or "" if there is none.
  virtual std::string master(const master_query& query = {}) const = 0;
  /// Returns the communication layer, such as "grpc". Empty: it is not set.
  virtual std::string rpc_layer() const = 0;
  /// Returns the name of the environment, such as "cloud". Empty: it is not
  /// set.
  virtual std::string environment() const = 0;

  /// Returns the task of this process. None: its type or index is not known.
  std::optional<cluster_task> task() const;

protected:
  cluster_resolver() = default;
  cluster_resolver(const cluster_resolver&) = default;
  cluster_resolver& operator=(const cluster_resolver&) = default;
};

/// Returns "layer://address", such as "grpc://host:port". If the layer or the
/// address is empty, returns the address unchanged.
std::string master_url(const std::string& address,
                       const std::string& rpc_layer);

} // namespace troupe::net
