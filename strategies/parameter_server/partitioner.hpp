#pragma once

#include "troupe/strategies/parameter_server/row_sharding.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace troupe::parameter_server {

/// Returns into how many shards a variable is divided along each of its axes.
/// Only the first axis can be divided: [n, 1, 1, ...]. A user can write one. It
/// must return the same numbers in all processes of a job.
using partitioner =
  std::function<std::vector<std::int64_t>(const tensor_spec& variable)>;

/// Divides each variable into `num_shards` shards, or into one for each row if
/// it has fewer rows.
/// @returns for each variable [min(num_shards, rows), 1, 1, ...]
/// @errors throws std::invalid_argument if `num_shards` is below 1. The
///         partitioner throws std::invalid_argument for a scalar.
/// @source TensorFlow's FixedShardsPartitioner
partitioner fixed_shards_partitioner(std::int64_t num_shards);

/// Divides a variable into ceil(bytes / min_shard_bytes) shards, but at most
/// `max_shards`, and at most one for each row. So a shard can have fewer bytes
/// than the minimum. The defaults divide no variable.
/// @errors throws std::invalid_argument if an argument is below 1. The
///         partitioner throws std::invalid_argument for a scalar.
/// @source TensorFlow's MinSizePartitioner
partitioner min_size_partitioner(std::int64_t min_shard_bytes = 256 * 1024,
                                 std::int64_t max_shards = 1);

/// Divides a variable into as few shards as possible that have at most
/// `max_shard_bytes`. A shard has more if one row has more, or if there would
/// be more than `max_shards` shards.
/// @param max_shards Zero: no limit.
/// @errors throws std::invalid_argument if `max_shard_bytes` is below 1 or
///         `max_shards` below 0. The partitioner throws std::invalid_argument
///         for a scalar, and for a variable that has no elements.
/// @source TensorFlow's MaxSizePartitioner
partitioner max_size_partitioner(std::int64_t max_shard_bytes,
                                 std::int64_t max_shards = 0);

/// Divides a variable as a partitioner says. A scalar and a variable without
/// rows are not divided, and `rule` is not called for them. A variable with
/// fewer rows than shards gets one shard for each row.
/// @param rule Empty: no variable is divided.
/// @param name name of the variable, for errors.
/// @errors throws std::invalid_argument that names the variable and the
///         returned numbers, unless there is one number for each axis, the
///         first of them is at least 1, and all others are 1; also for more
///         than `row_sharding::max_shards` shards. Exceptions of `rule` pass.
row_sharding shard_rows(const partitioner& rule, std::string_view name,
                        const tensor_spec& variable);

} // namespace troupe::parameter_server
