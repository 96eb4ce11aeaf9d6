#pragma once

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/membership/peers/job_launcher.hpp"
#include "troupe/actors/membership/peers/peer_table.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/io/process_handle.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Options of the membership actor of a process.
struct membership_options {
  /// The processes of the job, with their names and addresses for texts.
  named_processes processes;
  membership::join_request self;
  bool joins = false; ///< The process joins a running job.
  std::chrono::milliseconds start_timeout{60'000};
  std::chrono::milliseconds shutdown_timeout{5'000};
  std::shared_ptr<peer_table> peers;
  using dial_callback = std::function<void(net::endpoint::dial_result&&)>;
  /// Participant: dials the leader for at most the given time, with a hello
  /// that carries the join request. Calls the function once, on any thread.
  std::function<void(std::chrono::milliseconds timeout, dial_callback on_done)>
    dial_leader{};
  /// Participant: dials another participant, which has a lower task, for at
  /// most the given time, with the same hello. Calls the function once, on any
  /// thread.
  /// @errors throws std::invalid_argument for an address that cannot be used.
  std::function<void(const membership::member& peer,
                     std::chrono::milliseconds timeout, dial_callback on_done)>
    dial_peer{};
  /// Candidate: dials the process of a task for at most the given time. Calls
  /// the function once, on any thread.
  /// @param member the process, which is dialed at its address in a view. Null:
  ///               the address of the task in the cluster is dialed.
  /// @errors throws std::invalid_argument for an address that cannot be used.
  std::function<void(std::uint32_t task, const membership::member* member,
                     std::chrono::milliseconds timeout, dial_callback on_done)>
    dial_to_join{};
  /// Candidate: the view that lacks its task, if other candidates may ask for
  /// this task. The candidate connects to the first member of the view before
  /// it connects to the others, so that only one candidate is accepted. If a
  /// connection ends before it knows the job, it fails with ec::busy. Id zero:
  /// it connects to all processes at once, and goes on if connections end.
  membership::view known_view{};
  /// Dials another member of the running job, to which the connection was cut,
  /// for at most the given time. The hello names this process and its view.
  /// Calls the function once, on any thread. Also dials a process that asks to
  /// join, which answers only. Null: no connection is made again, and no such
  /// process is dialed.
  /// @errors throws std::invalid_argument for an address that cannot be used.
  std::function<void(const membership::member& peer,
                     std::chrono::milliseconds timeout, dial_callback on_done)>
    dial_again{};
  /// Time in which a connection that was cut must be made again.
  std::chrono::milliseconds reconnect_timeout{1000};
  /// Time that a recovery has to end by itself when the program of this process
  /// wants to stop.
  std::chrono::milliseconds stop_delay{5'000};
  /// Leader: returns a text about connections that were closed because the peer
  /// did not authenticate. Empty: there are none.
  std::function<std::string()> describe_rejected_peers{};
  net::log_function log{}; ///< Null: no log.
  /// As in `cluster_options`.
  std::shared_ptr<job_launcher> launcher{};
  /// Returns a handle of the process with this identity; null if it is not on
  /// this host. Null: processes of the system.
  std::function<std::shared_ptr<const net::process_handle>(
    const net::process_identity&)>
    watch{};
};

} // namespace troupe
