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
  /// Where this worker's replicas compute, one on each; every worker has as
  /// many.
  std::vector<std::string> devices{"cpu:0"};
  int threads = 1; ///< Of each replica's ops.
  communication_options communication{};
  /// What tensors cross between two workers.
  transport_kind transport = transport_kind::automatic;
  /// None given: `net::credentials_from_environment`.
  std::optional<net::credentials> credentials{};
  /// Longest that the start waits for the other workers.
  std::chrono::milliseconds patience{60'000};
  std::string job = "job"; ///< All workers name the same.
  /// What this worker listens on if it is not its address in the cluster, by
  /// which the others reach it.
  std::optional<net::address> listen{};
  /// Where this worker is dialed already, at its address in the cluster (a
  /// node's door); then that has the credentials. Null: it listens itself.
  std::shared_ptr<door> at{};
  std::chrono::milliseconds heartbeat{100};
  /// Longest silence of a worker before it is given up.
  std::chrono::milliseconds suspect{1000};
  /// Hears of connections refused and lost; default: `log_of_connections`.
  net::log_function log{};
  /// For tests: what befalls what this worker says to others; null: nothing.
  std::shared_ptr<fault_seam> faults{};
};

/// Replicas in many processes, the workers, which all run the same program:
/// each calls the same functions of strategy and models in the same order. The
/// chief task, or else worker 0, counts as worker 0 here. Replica i of worker w
/// is replica w * local_replicas() + i of the job; weights are those of as many
/// replicas in one process, to the last bit.
///
/// A worker that dies or hangs ends what all the others are doing with a
/// `failure` that names it, in time; they can do no more together then.
class multi_worker_mirrored_strategy : public strategy {
public:
  /// Joins the job: returns when all workers are there. Without a cluster, or
  /// in one of a single worker, there is nobody to join.
  /// @param on  outlives the strategy and all made in its scope.
  /// @param who says which workers there are, and which this is.
  /// @errors throws std::invalid_argument for options that cannot be, and for a
  ///         task that sums nothing up (ps); `failure` that names who did not
  ///         come in time or why this worker was refused.
  explicit multi_worker_mirrored_strategy(
    runtime& on, const net::cluster_resolver& who = tf_config(),
    const multi_worker_options& options = {});
};

} // namespace troupe
