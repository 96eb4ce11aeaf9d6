#pragma once

#include "troupe/strategies/parameter_server/row_sharding.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <vector>

namespace troupe::parameter_server {

/// How the server of the next shard is chosen.
enum class placement_policy : std::uint8_t {
  /// The server after that of the shard before, also from one variable to the
  /// next. @source TensorFlow's ParameterServerStrategy
  round_robin,
  /// The server that has the fewest bytes so far, and of several the first one.
  /// @source TensorFlow's GreedyLoadBalancingStrategy
  least_bytes,
};

/// Chooses the parameter server of each shard. Shards are placed in the order
/// in which their variables are created, which must be the same in all
/// processes of a job.
class server_placement {
public:
  /// @errors throws std::invalid_argument if there is no server.
  explicit server_placement(
    std::uint32_t servers,
    placement_policy policy = placement_policy::round_robin);

  /// Places the shards of the next variable.
  /// @returns the server of each shard, in [0, servers).
  /// @errors throws std::logic_error, and places nothing, if the variable does
  ///         not have the rows that `sharding` divides.
  /// @cost least_bytes: reads the bytes of each server for each shard.
  std::vector<std::uint32_t> place(const tensor_spec& variable,
                                   const row_sharding& sharding);

  /// Frees the place of the shards of a variable.
  /// @param servers what `place` has returned for it.
  void remove(const tensor_spec& variable, const row_sharding& sharding,
              const std::vector<std::uint32_t>& servers);

  /// Returns the bytes of all shards that are placed, by server.
  const std::vector<std::uint64_t>& bytes() const { return bytes_; }

private:
  std::uint32_t next_server() const;

  placement_policy policy_;
  std::vector<std::uint64_t> bytes_;
  std::uint64_t placed_ = 0; ///< Number of shards that were ever placed.
};

} // namespace troupe::parameter_server
