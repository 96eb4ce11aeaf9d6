#include "troupe/strategies/parameter_server/server_placement.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::parameter_server {

namespace {

std::uint64_t bytes_of(const tensor_spec& variable,
                       const row_sharding& sharding, std::uint32_t shard) {
  return static_cast<std::uint64_t>(sharding.range_of(shard).size())
         * row_bytes(variable);
}

} // namespace

server_placement::server_placement(std::uint32_t servers,
                                   placement_policy policy)
  : policy_{policy}, bytes_(servers) {
  if (servers == 0)
    throw std::invalid_argument("the number of parameter servers is 0; it must "
                                "be at least 1");
}

std::vector<std::uint32_t>
server_placement::place(const tensor_spec& variable,
                        const row_sharding& sharding) {
  const auto& dims = variable.dims;
  if (sharding.rows() != (dims.rank() == 0 ? 1 : dims.front()))
    throw std::logic_error(std::to_string(sharding.rows())
                           + " rows of a variable " + to_string(variable));
  std::vector<std::uint32_t> out(sharding.shards());
  for (std::uint32_t shard = 0; shard < sharding.shards(); ++shard) {
    out[shard] = next_server();
    bytes_[out[shard]] += bytes_of(variable, sharding, shard);
    ++placed_;
  }
  return out;
}

void server_placement::remove(const tensor_spec& variable,
                              const row_sharding& sharding,
                              const std::vector<std::uint32_t>& servers) {
  for (std::uint32_t shard = 0; shard < servers.size(); ++shard)
    bytes_[servers[shard]] -= bytes_of(variable, sharding, shard);
}

std::uint32_t server_placement::next_server() const {
  if (policy_ == placement_policy::round_robin)
    return static_cast<std::uint32_t>(placed_ % bytes_.size());
  return static_cast<std::uint32_t>(std::ranges::min_element(bytes_)
                                    - bytes_.begin());
}

} // namespace troupe::parameter_server
