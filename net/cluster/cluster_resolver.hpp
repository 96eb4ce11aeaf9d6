#pragma once

#include "troupe/net/cluster/cluster_task.hpp"

namespace troupe::net {

/// Which task's address is asked for, and how it shall look; what is not given
/// is the resolver's own.
struct master_query {
  std::optional<std::string> task_type{};
  std::optional<task_index> task_id{};
  std::optional<std::string> rpc_layer{};
};

/// Says who is in the cluster, and which task this process is. What starts a
/// job's processes (a batch system, an orchestrator) has one each: one file,
/// derived from this.
///
/// Each function throws std::invalid_argument with a sentence if what it reads
/// will not do, and may read it anew in every call.
class cluster_resolver {
public:
  virtual ~cluster_resolver() = default;

  /// Empty: this process is all there is.
  virtual net::cluster_spec cluster_spec() const = 0;
  /// This process's; none if it was not told.
  virtual std::optional<std::string> task_type() const = 0;
  virtual std::optional<task_index> task_id() const = 0;
  /// "" or "host:port" or "layer://host:port": whom a client speaks to.
  virtual std::string master(const master_query& query = {}) const = 0;
  /// "" if none is named.
  virtual std::string rpc_layer() const = 0;
  virtual std::string environment() const = 0;

  /// This process's task, if it was told both.
  std::optional<cluster_task> task() const;

protected:
  cluster_resolver() = default;
  cluster_resolver(const cluster_resolver&) = default;
  cluster_resolver& operator=(const cluster_resolver&) = default;
};

/// "grpc://host:port"; the address itself without a layer, or if it is empty.
std::string master_url(const std::string& address,
                       const std::string& rpc_layer);

} // namespace troupe::net
