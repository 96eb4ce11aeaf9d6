#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::membership {

/// The side of a process other than the leader. `leader` describes the
/// protocol. The host of this state machine connects to the leader, with the
/// join request in the hello of the connection, and reports what happens.
///
///   on connected  wait for the first view
///   on view  it is the first one. It must have the expected tasks and contain
///            this process and the leader's incarnation
///   on start  of this view: the job begins
///   on shutdown  leave: this process knows that the job ends
///   on lost  before the start: the job cannot begin
///   on timeout  before the start: the job cannot begin
///   on leave  of another participant: it has left. Of the leader, after the
///            start: the same, and the job has no leader any more
///   faults   message of another incarnation than that of the leader, a second
///            view, or a kind that only participants send -> ignored
///            view that is impossible -> the job cannot begin
class participant {
public:
  /// @param tasks number of tasks of the job.
  participant(std::uint32_t tasks, const join_request& self);
  /// A process that has joined a running job (candidate.hpp).
  /// @param joined the view with which it belongs to the job.
  /// @param leader incarnation of the leader. None: it was lost.
  participant(std::uint32_t tasks, const join_request& self,
              const membership::view& joined,
              std::optional<std::uint64_t> leader);

  /// This process is connected to the leader. No effect in a later phase.
  reaction on_connected(std::uint64_t leader_incarnation);
  /// This process cannot connect to the leader, which has not rejected it.
  reaction on_unreachable(ec code, const std::string& reason);
  /// The leader has rejected this process before they were connected.
  reaction on_rejected(const std::string& reason);

  reaction on(std::uint64_t incarnation, const message& received);
  /// The connection to a process has ended. No effect for other participants.
  reaction on_lost(std::uint64_t incarnation, ec code,
                   const std::string& reason);
  /// The connection to a process of the running job was cut and has been made
  /// again. Sends what the process may not have received.
  /// @param incarnation of the process.
  reaction on_reconnected(std::uint32_t task, std::uint64_t incarnation);
  /// A later view has taken effect.
  void on_installed(const membership::view& next) { view_ = next; }
  /// The timeout of the current phase of the start has elapsed.
  reaction on_timeout();

  /// The lanes of this process are open, and it is connected to all others.
  reaction on_ready();
  /// This process cannot take part in the start.
  reaction on_abort(ec code, const std::string& reason);
  /// Leaves the job. No effect when called again.
  reaction leave();

  const membership::view& view() const { return view_; }

private:
  enum class phase { dialing, joining, connecting, ready, running, failed };

  bool is_starting() const;
  void on_view(reaction& out, const membership::view& next);
  bool is_possible(const membership::view& next) const;
  void fail(reaction& out, failure_report why);

  std::uint32_t tasks_;
  join_request self_;
  /// None: not connected to the leader.
  std::optional<std::uint64_t> leader_;
  membership::view view_;
  phase phase_ = phase::dialing;
  bool leaving_ = false;
  bool shut_down_ = false; ///< The leader has ended the job.
};

} // namespace troupe::membership
