#pragma once

#include "troupe/actors/membership/cluster.hpp"
#include "troupe/net/cluster/cluster_resolver.hpp"
#include "troupe/net/cluster/tf_config_resolver.hpp"
#include "troupe/training/strategies/communication.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

class runtime;

struct multi_worker_options {
  /// Devices of this worker's replicas, one replica on each. Every worker has
  /// equally many.
  std::vector<std::string> devices{"cpu:0"};
  int threads = 1; ///< Threads of each replica's ops.
  communication_options communication{};
  /// Transport of tensors between two workers.
  transport_kind transport = transport_kind::automatic;
  /// None: `net::credentials_from_environment`.
  std::optional<net::credentials> credentials{};
  /// Timeout of the wait for the other workers at the start.
  std::chrono::milliseconds start_timeout{60'000};
  std::string job = "job"; ///< Name of the job, equal in all workers.
  /// Address to listen on, if it differs from the address in the cluster that
  /// the other workers dial.
  std::optional<net::address> listen{};
  /// Router that already accepts connections at this worker's address in the
  /// cluster (that of a node). It has the credentials. Null: this worker
  /// listens itself.
  std::shared_ptr<service_router> router{};
  std::chrono::milliseconds heartbeat_interval{100};
  /// A worker that sends nothing for this long is considered lost.
  std::chrono::milliseconds heartbeat_timeout{1000};
  /// Receives reports of rejected and lost connections. Default:
  /// `log_of_connections`.
  net::log_function log{};
  /// For tests: fault injector for all messages of this worker to others. Null:
  /// none.
  std::shared_ptr<fault_injector> faults{};
};

/// Replicas in several processes, the workers, which all run the same program.
/// Each worker calls the same functions of strategy and models in the same
/// order. Worker 0 here is the chief task, or the first worker task if there is
/// no chief. Replica i of worker w is replica w * local_replicas() + i of the
/// job. The weights are bitwise equal to those of as many replicas in one
/// process.
///
/// If a worker dies or hangs, the calls of all other workers fail in bounded
/// time with a `job_error` that names it. The strategy cannot run any more
/// steps then.
class multi_worker_mirrored_strategy : public strategy {
public:
  /// Joins the job and returns when all workers have joined. Without a cluster,
  /// or with one of a single worker, it does not wait.
  /// @param local_runtime outlives the strategy and everything made in its
  /// scope.
  /// @param resolver provides the cluster and the task of this process.
  /// @errors throws std::invalid_argument for invalid options, and for a task
  ///         without replicas (ps); `job_error` that names the workers missing
  ///         at the timeout, or why this worker was rejected.
  explicit multi_worker_mirrored_strategy(
    runtime& local_runtime, const net::cluster_resolver& resolver = tf_config(),
    const multi_worker_options& options = {});
};

} // namespace troupe
