#include "troupe/net/cluster/simple_resolver.hpp"

namespace troupe::net {

simple_resolver::simple_resolver(net::cluster_spec cluster, options values)
  : cluster_{std::move(cluster)}, options_{std::move(values)} {
  if (const auto it = task())
    check_task(cluster_, *it);
}

std::string simple_resolver::master(const master_query& query) const {
  const auto address =
    query.task_type && query.task_id
      ? cluster_.task_address(*query.task_type, *query.task_id)
      : options_.master;
  return master_url(address, query.rpc_layer.value_or(options_.rpc_layer));
}

} // namespace troupe::net
