#pragma once

#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/membership/spare_not_needed.hpp"
#include "troupe/net/cluster/cluster_resolver.hpp"
#include "troupe/net/cluster/tf_config_resolver.hpp"
#include "troupe/training/strategies/nccl_devices.hpp"
#include "troupe/training/strategies/replica/communication.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

class runtime;

struct multi_worker_options {
  /// Devices of this worker, with one replica on each by default. All workers
  /// must have the same number of devices.
  std::vector<std::string> devices{"cpu:0"};
  /// Number of replicas of the job, equal in all workers and at least the
  /// number of workers. It need not be a multiple: each worker has an equal
  /// part, and the first workers have one more (`replicas_of_worker`). The
  /// replicas of a worker take its devices in turn. Zero: one on each device of
  /// each worker.
  std::uint32_t replicas = 0;
  int threads = 1; ///< Threads of each replica's ops.
  communication_options communication{};
  /// Transport of tensors between two workers.
  transport_kind transport = transport_kind::automatic;
  net::connection_options connection{};
  /// Maximum wait for the other workers at the start.
  std::chrono::milliseconds start_timeout{60'000};
  /// Why the program of this worker cannot take part, such as a file that it
  /// lacks. The worker connects to the others only to tell them, and the start
  /// fails in all of them. Empty: it takes part.
  std::string start_failure{};
  /// True: this worker takes the task of one that the running job has lost. Its
  /// program makes the same calls as the others; those that the job has made
  /// return at once with the job's results. It gets replicas and the state of
  /// the models in the first call that is not done. Before that, its models
  /// have no values. The same holds if the environment variable TROUPE_JOIN is
  /// 1: `troupe launch` sets it for a worker that it starts again.
  bool join_running_job = false;
  /// Makes a worker that joins a spare. It waits for at most this time until
  /// the worker with its task on this host has ended, and then joins. The job
  /// is not disturbed meanwhile. Zero: it does not wait. Needs
  /// `join_running_job`.
  std::chrono::milliseconds spare_timeout{0};
  /// Makes this worker a spare for any task: it waits, on any host, until the
  /// running job lacks a worker, and takes its task. It asks one member of the
  /// job about every 500 ms, which is the only load. The task of the resolver
  /// is not used. The other workers connect to `listen`. Needs
  /// `join_running_job` and `spare_timeout`; cannot have a plan of faults.
  bool any_task = false;
  /// Minimum size of the parameters and slots of a model that a worker which
  /// joins during `fit` copies before it asks to join. The others train
  /// meanwhile. A smaller state is copied while they wait. Also the minimum
  /// state that this worker gives to others in this way.
  std::size_t copy_ahead_bytes = std::size_t{32} << 20;
  std::string job = "job"; ///< Must be equal in all workers.
  /// Address on which this worker listens. None: this worker's address in the
  /// cluster, to which the other workers connect. A spare for any task is not
  /// in the cluster: the others connect to this address, whose port may be 0
  /// for any. None: a free port of 127.0.0.1, if the cluster is on loopback.
  std::optional<net::address> listen{};
  /// Service router of a node that already accepts connections at this worker's
  /// address in the cluster. The router has options of its own, so
  /// `connection` is ignored. Null: this worker listens itself.
  std::shared_ptr<service_router> router{};
  /// Receives reports of rejected and lost connections. Null:
  /// `log_of_connections`.
  net::log_function log{};
  /// For tests: fault injector for all messages and packets that this worker
  /// sends. Null: that of `fault_plan`.
  std::shared_ptr<fault_injector> faults{};
  /// For tests: makes the NCCL device of a CUDA device. Null: that of the card.
  nccl_device_maker nccl_device{};
  /// For tests: file with a plan of faults (docs/formats.md) that are injected
  /// into the workers. Empty: the file that the environment variable
  /// TROUPE_FAULTS names. No file: no faults.
  std::string fault_plan{};
};

/// Returns how many of the replicas of a job a worker has at the start.
/// @param worker number of the worker, in [0, workers).
std::uint32_t replicas_of_worker(std::uint32_t replicas, std::size_t workers,
                                 std::size_t worker);

/// Runs replicas in several processes. These processes are the workers, and all
/// run the same program. Each worker must call the same functions of the
/// strategy and of models in the same order. Worker 0 is the chief task, or the
/// first worker task if the cluster has no chief. Replica ids ascend over the
/// replicas of worker 0, then over those of worker 1, and so on. The weights
/// are bitwise equal to the weights of a job with the same number of replicas
/// in one process.
///
/// If a worker dies or becomes unreachable, the calls of the others go on with
/// its replicas: `fit`, `evaluate`, `save`, `run`, `reduce` and `gather`. A
/// process that takes its task can join, unless the program has called `run`,
/// `reduce` or `gather` outside of `strategy::loop`. If too few workers are
/// left, calls fail in bounded time with a `job_error` that names the worker.
/// After that the strategy cannot run steps. See docs/protocols/recovery.md.
class multi_worker_mirrored_strategy : public strategy {
public:
  /// Joins the job and returns when all workers have joined. If there is no
  /// cluster, or the cluster has a single worker, the constructor does not
  /// wait.
  /// @param local_runtime outlives the strategy and everything made in its
  ///        scope.
  /// @param resolver provides the cluster and the task of this process.
  /// @errors throws std::invalid_argument for invalid options, for a task that
  ///         has no replicas (type ps), and for a plan of faults that is
  ///         invalid or does not fit the job. Throws `job_error` with the
  ///         missing workers when the timeout expires, or with the reason why
  ///         this worker was rejected. Throws `spare_not_needed` if the job
  ///         ends while a spare for any task waits.
  explicit multi_worker_mirrored_strategy(
    runtime& local_runtime, const net::cluster_resolver& resolver = tf_config(),
    const multi_worker_options& options = {});
};

} // namespace troupe
