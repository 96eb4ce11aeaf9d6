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

class door;
class fault_seam;
class runtime;

/// What tensors cross between two processes.
enum class transport_kind : std::uint8_t {
  automatic, ///< Shared memory on one host, else TCP, under TLS if secured so.
  shm,
  tcp,
  tls,
};

struct cluster_options {
  std::string job = "job"; ///< All name the same.
  /// Of every task, in the same order everywhere; the first is the leader's.
  std::vector<net::address> addresses{};
  /// What people call them: "chief 0", "worker 1". Empty: "worker <index>".
  std::vector<std::string> names{};
  std::uint32_t index = 0;    ///< This process's task.
  std::uint32_t replicas = 1; ///< Of each process.
  int threads = 1;            ///< Of each replica; all must agree.
  /// Whatever else all must agree on, as text: it is compared.
  std::string agreed{};
  /// Longest that the start waits for the others.
  std::chrono::milliseconds patience{60'000};
  /// Longest that the end waits for them.
  std::chrono::milliseconds farewell{5'000};
  transport_kind transport = transport_kind::automatic;

  net::credentials credentials{}; ///< None: loopback only.
  std::chrono::milliseconds heartbeat{100};
  /// Longest silence of a process before it is given up.
  std::chrono::milliseconds suspect{1000};
  /// What this process listens on if it is not `addresses[index]`.
  std::optional<net::address> listen{};
  net::log_function log{}; ///< Refusals, ends.
  /// Where this process is dialed already; null: it opens an endpoint of its
  /// own, as credentials, heartbeat and suspect say.
  std::shared_ptr<door> at{};
  /// What befalls what this process's roles and its tensors say; null: nothing.
  std::shared_ptr<fault_seam> faults{};
};

/// The processes of a job, each of which runs the same program; this is one of
/// them. The leader, task 0, is dialed by all; all dial each other.
class cluster {
public:
  /// Joins the job: returns when all tasks are there and can speak to each
  /// other. The runtime must outlive it.
  /// @errors throws std::invalid_argument for options that make no sense;
  ///         `failure`: ec::stalled names who did not come in time,
  ///         ec::refused says, on both sides, why a process was refused,
  ///         ec::peer_lost or ec::unreachable that one was lost meanwhile.
  cluster(runtime& in, cluster_options options);

  /// Leaves if it has not.
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  std::uint32_t index() const;
  std::uint32_t processes() const;
  std::uint32_t replicas() const; ///< Of all processes together.
  bool leads() const { return index() == 0; }
  const std::string& name(std::uint32_t task) const;

  /// "shm", "tcp" or "tls": how tensors get to another process; "none" to this.
  std::string transport_to(std::uint32_t task) const;

  /// Says goodbye: a leader tells all that the job ends, all others tell the
  /// leader, and wait until they are heard, no longer than the farewell. Void
  /// the second time. @pre its crew is gone.
  void leave() noexcept;

  /// What actors need of it.
  class inside;
  inside& in() const { return *inside_; }

private:
  std::unique_ptr<inside> inside_;
};

/// The crew of a cluster: each process's part of it. One at a time; the cluster
/// outlives it.
/// @param options `replicas` and `threads` are the cluster's.
/// @errors throws std::invalid_argument for options that make no sense.
std::unique_ptr<crew> make_crew(cluster& in, const crew_options& options);

} // namespace troupe
