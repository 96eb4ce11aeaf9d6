#pragma once

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/membership/peers/job_launcher.hpp"
#include "troupe/actors/membership/peers/peer_table.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/io/process_handle.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <caf/typed_actor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// What a membership actor is told. All senders are in its process.
struct membership_event {
  /// A process has connected: to the leader, because it asks to join; to a
  /// participant, because both belong to the first view.
  struct accepted {
    std::shared_ptr<net::connection> connection;
    membership::join_request request;
  };
  /// A process has connected that asks to join the running job.
  struct candidate_accepted {
    std::shared_ptr<net::connection> connection;
    membership::join_request request;
  };
  /// This process has tried to connect to a process that asks to join.
  struct candidate_dialed {
    view_change::process_id process;
    std::shared_ptr<net::endpoint::dial_result> result;
  };
  /// Participant or candidate: an attempt to connect to the process of a task
  /// has ended.
  struct dialed {
    std::uint32_t task = 0;
    std::shared_ptr<net::endpoint::dial_result> result;
  };
  /// The process of a task has sent a message on the channel of membership, of
  /// view changes, of results or of packet reports.
  struct received {
    std::uint32_t task = 0;
    std::uint64_t connection = 0; ///< The actor counts its connections.
    std::uint32_t channel = 0;    ///< Number of the channel.
    std::shared_ptr<net::frame> frame;
  };
  /// The connection to the process of a task has ended.
  struct closed {
    std::uint32_t task = 0;
    std::uint64_t connection = 0; ///< As in `received`.
    net::close_reason cause = net::close_reason::closed;
    std::string reason;
  };
  /// Participant: some time ago the connection to another one ended, before the
  /// start.
  struct peer_lost {
    std::uint32_t task = 0;
    ec code = ec::peer_lost;
    std::string reason;
  };
  /// The connection to a process of this host has ended: check whether the
  /// process has ended, too.
  struct end_check {
    std::uint64_t incarnation = 0;
    std::shared_ptr<const net::process_handle> process;
    std::uint32_t further_checks = 0;
    std::uint32_t task = 0; ///< Task of the process.
  };
  /// A member of the running job has connected whose connection to this process
  /// was cut.
  struct accepted_again {
    std::shared_ptr<net::connection> connection;
    view_change::process_id process;
  };
  /// Dial a member of the running job to which the connection was cut.
  struct dial_again {
    view_change::process_id process;
  };
  /// An attempt to do that has ended.
  struct dialed_again {
    view_change::process_id process;
    std::shared_ptr<net::endpoint::dial_result> result;
  };
  /// The time in which a connection must be made again has passed.
  struct not_reconnected {
    view_change::process_id process;
    std::uint64_t number = 0; ///< Number in `reconnection::set_timer`.
  };
  /// The replicas of this process cannot go on in the view with this id,
  /// although no process may be lost.
  struct renewal_wanted {
    std::uint64_t view_id = 0;
  };
  /// The lanes of this process to a member of the view with this id cannot be
  /// opened, although the two are connected.
  struct no_lanes {
    std::uint64_t view_id = 0;
    std::uint64_t incarnation = 0; ///< Incarnation of the member.
    bool is_newer = false;         ///< It has joined later than this process.
  };
  /// The lanes of this process to all others are open.
  struct lanes_open {};
  /// This process cannot take part in the start.
  struct aborted {
    ec code = ec::stalled;
    std::string reason;
  };
  /// The replicas of this process have stopped for a view change, as
  /// `peer_table::stop` says.
  struct replicas_stopped {};
  /// The replicas of this process should have stopped by now for the view that
  /// follows this one.
  struct stop_overdue {
    std::uint64_t view_id = 0;
  };
  /// Too few processes have answered for the view that follows this one. Since
  /// then the others were reported to the launcher.
  struct undecided {
    std::uint64_t view_id = 0;
    std::vector<std::uint32_t> silent_tasks;
  };
  /// The launcher was asked in the view with this id which processes live, and
  /// may have answered.
  struct survivors_asked {
    std::uint64_t view_id = 0;
    std::uint64_t question = 0; ///< Its number.
    caf::timespan deadline{};   ///< Time at which this process gives up.
    std::vector<view_change::process_id> living;
    std::vector<std::uint32_t> silent_tasks; ///< As in `undecided`.
  };
  /// Report to the other processes how many packets they were sent.
  struct packet_reports_due {};
  /// Candidate: its last connection to a process of the job has ended some time
  /// ago.
  struct connections_overdue {};
  /// Candidate: the program has come to where the job is.
  struct ask_to_join {};
  /// A process that joins asks all others for the results from this call on.
  struct request_results {
    std::uint64_t call = 0;
  };
  /// Members of the view with this id want to leave. Its processes have agreed
  /// on that, and their replicas have stopped.
  struct leaving {
    std::uint64_t view_id = 0;
    std::vector<std::uint64_t> incarnations;
  };
  /// This process leaves the job.
  struct leave {
    /// The others go on, also if this process is the leader.
    bool job_goes_on = false;
  };

  std::variant<accepted, candidate_accepted, candidate_dialed, dialed, received,
               closed, peer_lost, end_check, accepted_again, dial_again,
               dialed_again, not_reconnected, renewal_wanted, no_lanes,
               lanes_open, aborted, replicas_stopped, stop_overdue, undecided,
               survivors_asked, packet_reports_due, connections_overdue,
               ask_to_join, request_results, leaving, leave>
    what;
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event)

namespace troupe {

/// Hosts the membership protocol (`strategies/membership/`) in a process: the
/// leader in task 0, a participant in all other tasks. A process that joins
/// while the job runs is a candidate first. Every process hosts the view
/// changes. The actor owns the control connections, one to each other process,
/// and writes what other roles need to know to a `peer_table`.
using membership_actor =
  caf::typed_actor<caf::reacts_to<membership_event>,
                   // The timeout with this number has elapsed. An older number
                   // has no effect.
                   caf::reacts_to<atom::watchdog, std::uint64_t>,
                   // The timer of the view changes with this number has
                   // elapsed.
                   caf::reacts_to<atom::wake, std::uint64_t>,
                   // A participant or candidate dials the process of this task
                   // again.
                   caf::reacts_to<atom::next, std::uint32_t>,
                   // A candidate asks again.
                   caf::reacts_to<atom::next>,
                   // The leader logs which tasks are missing, and a candidate
                   // why it is not accepted.
                   caf::reacts_to<atom::missing>>;

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

/// Spawns the membership actor of a process. It begins at once: a participant
/// dials the leader. It terminates when it is sent an exit message.
membership_actor spawn_membership(caf::actor_system& system,
                                  const membership_options& options);

} // namespace troupe
