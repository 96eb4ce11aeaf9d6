#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/net/base/address.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/security/credentials.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

class service_router;
class fault_injector;
class runtime;

/// Transport of tensors between two processes.
enum class transport_kind : std::uint8_t {
  automatic, ///< Shared memory on one host, else TCP, with TLS if credentials
             ///< have certificates.
  shm,
  tcp,
  tls,
};

struct cluster_options {
  /// Name of the job. All processes must give the same one.
  std::string job = "job";
  /// Address of every task, in the same order in all processes. The leader has
  /// the first.
  std::vector<net::address> addresses{};
  /// Display name of every task: "chief 0", "worker 1". Empty: "worker <task>".
  std::vector<std::string> names{};
  std::uint32_t task = 0;     ///< This process's task.
  std::uint32_t replicas = 1; ///< Replicas in each process.
  int threads = 1; ///< Threads of each replica. All processes must agree.
  /// Further configuration that all processes must agree on. The leader
  /// compares the text.
  std::string shared_config{};
  /// Timeout of waiting for the other processes at the start.
  std::chrono::milliseconds start_timeout{60'000};
  /// Timeout of waiting for the other processes at the end.
  std::chrono::milliseconds shutdown_timeout{5'000};
  transport_kind transport = transport_kind::automatic;

  net::credentials credentials{}; ///< Empty: loopback only.
  std::chrono::milliseconds heartbeat_interval{100};
  /// Silence after which a process counts as unreachable.
  std::chrono::milliseconds heartbeat_timeout{1000};
  /// Address that this process listens on. None: its own in `addresses`.
  std::optional<net::address> listen{};
  /// Receives rejected and ended connections. Null: no log.
  net::log_function log{};
  /// Router of an endpoint that already accepts this process's connections.
  /// Null: the cluster opens an endpoint with the credentials and heartbeat
  /// options above.
  std::shared_ptr<service_router> router{};
  /// Fault injector for all messages and tensors that this process sends.
  /// Null: none.
  std::shared_ptr<fault_injector> faults{};
};

/// Membership of this process in a job whose processes all run the same
/// program. Every other process connects to the leader, task 0. For tensors
/// each process also connects to every process with a lower task number.
class cluster {
public:
  /// Joins the job. Returns when all tasks have joined and are connected to
  /// each other. The runtime must outlive the cluster.
  /// @errors throws std::invalid_argument for invalid options; `job_error`:
  ///         ec::stalled names the tasks that did not join in time,
  ///         ec::refused gives, on both sides, the reason of a rejection,
  ///         ec::peer_lost or ec::unreachable names a process that was lost
  ///         during the start.
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

  /// Transport of tensors to another process: "shm", "tcp" or "tls". "none" for
  /// this process.
  std::string transport_to(std::uint32_t task) const;

  /// Leaves the job. The leader notifies all processes that the job ends; any
  /// other process notifies the leader that it leaves. Then waits for the
  /// acknowledgements, at most the shutdown timeout, and closes the
  /// connections. No effect the second time.
  /// @pre the replica group of the cluster is destroyed.
  void leave() noexcept;

  /// Implementation. The replica group and the actors use it too.
  class impl;
  impl& implementation() const { return *impl_; }

private:
  std::unique_ptr<impl> impl_;
};

/// Makes this process's replica group of the cluster, over all replicas of the
/// job. The cluster must outlive it. A cluster of several processes makes one
/// group only.
/// @param options `replicas` and `threads` are ignored: the cluster has them.
/// @errors throws std::invalid_argument for invalid options, std::logic_error
///         for a second group of several processes.
std::unique_ptr<replica_group>
make_replica_group(cluster& job_cluster, const replica_group_options& options);

} // namespace troupe
