#include "troupe/net/cluster/simple_resolver.hpp"

namespace troupe::net {

simple_resolver::simple_resolver(net::cluster_spec cluster, options own)
  : cluster_{std::move(cluster)}, own_{std::move(own)} {
  if (const auto it = task())
    check_task(cluster_, *it);
}

std::string simple_resolver::master(const master_query& query) const {
  const auto address =
    query.task_type && query.task_id
      ? cluster_.task_address(*query.task_type, *query.task_id)
      : own_.master;
  return master_url(address, query.rpc_layer.value_or(own_.rpc_layer));
}

} // namespace troupe::net
