#pragma once

#include "troupe/net/cluster/cluster_task.hpp"

#include <string_view>

namespace troupe::net {

/// What the environment variable TF_CONFIG says.
struct tf_settings {
  net::cluster_spec cluster{}; ///< Empty without "cluster": local.
  std::optional<std::string> task_type{};
  std::optional<task_index> task_id{};
  std::optional<std::string> session_master{};
  std::string rpc_layer{}, environment{}; ///< "" if not given.
};

struct tf_limits {
  static constexpr std::size_t bytes = std::size_t{1} << 20;
  static constexpr int depth = 32; ///< Brackets within brackets.
};

/// Reads TF_CONFIG:
///
///   {"cluster": {"chief": ["host:port"], "worker": ["host:port", ...],
///                "ps": [...], "evaluator": ["host:port"]},
///    "task": {"type": "worker", "index": 0},
///    "rpc_layer": "...", "environment": "...", "session_master": "..."}
///
/// Each key may be missing, and keys that are not named here are not looked at.
/// The task is one of the cluster's, if there is one; only the evaluator may be
/// missing there. At most one chief and one evaluator.
///
/// @errors throws std::invalid_argument: one sentence with the key and what
///         would do.
tf_settings parse_tf_config(std::string_view text);

/// What `parse_tf_config` reads as this cluster and task.
std::string write_tf_config(const net::cluster_spec& cluster,
                            const cluster_task& task);

} // namespace troupe::net
