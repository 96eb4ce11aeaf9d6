#include "troupe/net/cluster/cluster_resolver.hpp"

namespace troupe::net {

std::optional<cluster_task> cluster_resolver::task() const {
  const auto type = task_type();
  const auto id = task_id();
  if (!type || !id)
    return {};
  return cluster_task{*type, *id};
}

std::string master_url(const std::string& address,
                       const std::string& rpc_layer) {
  return address.empty() || rpc_layer.empty() ? address
                                              : rpc_layer + "://" + address;
}

} // namespace troupe::net
