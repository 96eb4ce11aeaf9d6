#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"
#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/membership/peers/job_launcher.hpp"
#include "troupe/net/base/address.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/session/connection_options.hpp"
#include "troupe/strategies/membership/messages.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct job_status;
class service_router;
class fault_injector;
class flight_recorder;
class runtime;

/// Transport of tensors between two processes.
enum class transport_kind : std::uint8_t {
  /// Shared memory if both processes are on one host and have it. Otherwise TLS
  /// if the credentials have certificates, else TCP.
  automatic,
  shm,
  tcp,
  tls,
};

struct cluster_options {
  /// Name of the job. All processes must give the same name.
  std::string job = "job";
  /// Address of every task, in the same order in all processes. The first
  /// address is the leader's.
  std::vector<net::address> addresses{};
  /// Display name of every task, such as "chief 0" or "worker 1". Empty: the
  /// names are "worker 0", "worker 1" and so on.
  std::vector<std::string> names{};
  std::uint32_t task = 0; ///< Task number of this process.
  /// Number of replicas in this process. It may be zero if another process of
  /// the job hosts one, and differ between processes.
  std::uint32_t replicas = 1;
  int threads = 1; ///< Threads per replica; equal in all processes.
  /// Further configuration as text, equal in all processes. The leader rejects
  /// a process whose text differs from its own.
  std::string shared_config{};
  /// Timeout of the wait for the other processes when the job starts.
  std::chrono::milliseconds start_timeout{60'000};
  /// Why this process cannot take part. When all processes are connected, it
  /// aborts the start in all of them. Empty: it takes part. No effect in a
  /// process that joins a running job.
  std::string start_failure{};
  /// Timeout of the wait for the other processes in `leave`.
  std::chrono::milliseconds shutdown_timeout{5'000};
  /// True: the process takes a task of a job that runs already, because the
  /// process that had the task has ended. It becomes a member of the job when
  /// its program has come to the call that the job makes (docs/protocols/
  /// joining.md).
  bool join_running_job = false;
  /// Maximum time for which a process that joins waits until its address is
  /// free, while its predecessor still runs on this host. Zero: no wait. Needs
  /// `join_running_job`.
  std::chrono::milliseconds spare_timeout{0};
  /// True: the process waits until the job lacks a task, at most for
  /// `spare_timeout`, and takes that task. `task` has no effect. The process
  /// listens on `listen`; none: on a free port of 127.0.0.1, if all addresses
  /// are loopback. Needs `spare_timeout`.
  bool any_task = false;
  transport_kind transport = transport_kind::automatic;
  /// Whether NCCL adds the sums of tensors on the devices of the processes.
  device_sum_options device_sums{};
  net::connection_options connection{};
  /// Address that this process listens on. None: its address in `addresses`.
  /// The others connect to that address, or to this one if `any_task` is true.
  std::optional<net::address> listen{};
  /// Receives a line for each connection that was rejected or has ended. Null:
  /// no log.
  net::log_function log{};
  /// The launcher of processes of the job on this host. Null: there is none.
  std::shared_ptr<job_launcher> launcher{};
  /// Router of an endpoint that already accepts this process's connections.
  /// Null: the cluster opens an endpoint with the credentials and heartbeat
  /// options above.
  std::shared_ptr<service_router> router{};
  /// Injects faults into all messages and tensors that this process sends.
  /// Null: no faults.
  std::shared_ptr<fault_injector> faults{};
  /// Receives the events of this process. Null: no events are recorded.
  std::shared_ptr<flight_recorder> recorder{};
};

/// Membership of this process in a job. All processes of the job run the same
/// program. The leader is task 0. Each process connects to every process with a
/// lower task number, for messages and for tensors.
class cluster {
public:
  /// Joins the job. Returns when all tasks have joined and are connected to
  /// each other. The runtime must outlive the cluster.
  /// @errors throws std::invalid_argument for invalid options, and `job_error`:
  ///         ec::stalled names the tasks that did not join in time,
  ///         ec::refused gives the reason why the leader rejected this process,
  ///         ec::peer_lost or ec::unreachable names a process that was lost
  ///         during the start. Throws `spare_not_needed` (spare_not_needed.hpp)
  ///         if the job ends while this process waits for a task.
  cluster(runtime& local_runtime, cluster_options options);

  /// Leaves the job if `leave` was not called.
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  std::uint32_t task() const;
  std::uint32_t processes() const;
  std::uint32_t replicas() const; ///< Replicas of all processes together.
  bool is_leader() const { return task() == 0; }
  const std::string& name(std::uint32_t task) const;

  /// Returns the last view that this process knows; its id is 1 when the job
  /// begins. An excluded process is no member of the view that it returns.
  membership::view current_view() const;

  /// Adds the processes of the job to the status of its run, and why the job
  /// waits if no run is active.
  void add_to(job_status& status) const;

  /// Returns the transport of tensors to another process: "shm", "tcp" or
  /// "tls". For this process it is "none".
  std::string transport_to(std::uint32_t task) const;

  /// True if NCCL adds the sums of tensors on devices in the view of which this
  /// process has, or last had, replicas.
  bool uses_nccl() const;

  /// Leaves the job. The leader notifies all processes that the job ends; any
  /// other process notifies all that it leaves. Then `leave` waits for the
  /// acknowledgements, for at most the shutdown timeout, and closes the
  /// connections. A second call has no effect.
  /// @pre the replica group of the cluster is destroyed.
  void leave() noexcept;

  /// The implementation, which the replica group uses too.
  class impl;
  impl& implementation() const { return *impl_; }

private:
  std::unique_ptr<impl> impl_;
};

/// Makes this process's group object for all replicas of the job. The cluster
/// must outlive the group. A cluster of several processes makes only one group.
/// @param options options of the group. `replicas` and `threads` are ignored:
///                the group takes their values from the cluster.
/// @errors throws std::invalid_argument for invalid options, and
///         std::logic_error for a second group if the job has several
///         processes.
std::unique_ptr<replica_group>
make_replica_group(cluster& job_cluster, const replica_group_options& options);

} // namespace troupe
