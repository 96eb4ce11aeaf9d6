#pragma once

#include "troupe/net/cluster/cluster_task.hpp"

#include <string_view>

namespace troupe::net {

/// Contents of the environment variable TF_CONFIG.
struct tf_config_values {
  net::cluster_spec cluster{}; ///< Empty if "cluster" is missing.
  std::optional<std::string> task_type{};
  std::optional<task_index> task_id{};
  std::optional<std::string> session_master{};
  std::string rpc_layer{}, environment{}; ///< Empty if missing.
};

/// Limits of the JSON text in TF_CONFIG.
struct tf_limits {
  static constexpr std::size_t max_bytes = std::size_t{1} << 20;
  static constexpr int max_depth = 32; ///< Maximum depth of nested brackets.
};

/// Parses TF_CONFIG:
///
///   {"cluster": {"chief": ["host:port"], "worker": ["host:port", ...],
///                "ps": [...], "evaluator": ["host:port"]},
///    "task": {"type": "worker", "index": 0},
///    "rpc_layer": "...", "environment": "...", "session_master": "..."}
///
/// Each key may be missing; other keys are ignored. If there is a cluster, it
/// must list the task, unless the task is an evaluator. There is at most one
/// chief and at most one evaluator.
///
/// @errors throws std::invalid_argument with one sentence that names the key
///         and a valid value.
tf_config_values parse_tf_config(std::string_view text);

/// Returns the value of TF_CONFIG from which `parse_tf_config` reads this
/// cluster and task.
std::string write_tf_config(const net::cluster_spec& cluster,
                            const cluster_task& task);

} // namespace troupe::net
