#pragma once

#include "troupe/actors/membership/peers/peer_connections.hpp"
#include "troupe/actors/membership/view_changes/member_role.hpp"
#include "troupe/strategies/membership/messages.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

/// A process in the start and the end of its job: as the leader, a participant
/// or a candidate. Hosts the state machine of its role.
class process_role {
public:
  using process_id = view_change::process_id;

  /// All must outlive this object.
  process_role(const membership_context& context, peer_connections& connections,
               member_role& members);
  process_role(const process_role&) = delete;
  process_role& operator=(const process_role&) = delete;
  virtual ~process_role() = default;

  /// Begins the start of the job.
  virtual void start() = 0;
  /// Takes a connection of a process that asks for a task or belongs to the
  /// first view, or closes it.
  virtual void on(const membership_event::accepted& x) = 0;
  /// An attempt of this process to connect has ended.
  virtual void on(const membership_event::dialed& x) = 0;
  /// The lanes of this process are open.
  virtual void on(const membership_event::lanes_open& x) = 0;
  virtual void on(const process_id& sender,
                  const membership::message& received) = 0;
  /// Dials the process of a task again.
  virtual void dial(std::uint32_t task) = 0;
  /// The connection to a process has ended, but may be made again.
  virtual void on_closed(const peer_connections::ended_connection& ended,
                         const membership_event::closed& x) = 0;
  /// The connection to a process has ended for good.
  virtual void on_lost(const process_id& process,
                       const lost_connections::cut_connection& how) = 0;
  /// The connection to a member of the running job was made again.
  virtual void on_reconnected(const process_id& process) = 0;
  /// A later view has taken effect.
  virtual void on_installed(const membership::view& next) = 0;
  /// This process cannot take part in the start. No effect after the start.
  virtual void abort(ec code, const std::string& reason) = 0;
  /// @param job_goes_on the other processes continue without this one, also if
  ///                    it is the leader.
  virtual void leave(bool job_goes_on) = 0;
  /// Logs why the start takes long.
  virtual void log_delay() = 0;

  /// Aborts the start if the other participant has not connected again.
  void on_peer_lost(const membership_event::peer_lost& x);
  /// The timeout with this number has elapsed.
  void on_watchdog(std::uint64_t number);

protected:
  /// Time beyond the start timeout in which the processes have to open their
  /// lanes.
  static constexpr std::chrono::milliseconds lane_timeout{5000};

  const membership_context& context() const { return context_; }
  const membership_options& options() const { return context_.options(); }
  peer_table& peers() const { return context_.peers(); }
  peer_connections& connections() const { return connections_; }
  member_role& members() const { return members_; }

  void add_peer(const process_id& process,
                std::shared_ptr<net::connection> connection);
  void note_lanes_open();
  /// Replaces the timeout of the current phase.
  void arm_watchdog(std::chrono::milliseconds delay);
  void disarm_watchdog() { ++watchdog_; }
  /// Calls `log_delay` after some time.
  void log_delay_later();
  void take_view(membership::view&& first);
  /// Carries out the decisions of the state machine.
  void perform(membership::reaction&& effects);

private:
  // What differs between the roles when a decision is carried out.

  /// The first view has been agreed on. Takes it (`take_view`).
  virtual void on_view(membership::view&& first) = 0;
  /// The job begins.
  virtual void on_started() = 0;
  /// The job cannot begin.
  virtual void on_start_failed(const std::string& text) = 0;
  virtual void on_timeout() = 0;
  /// The lanes are open, and all others are connected.
  virtual membership::reaction on_ready() = 0;

  void report_if_ready();
  void perform(membership::admitted&) {}
  void perform(membership::rejected&) {} // see `leader_role`
  void perform(membership::send& x);
  void perform(membership::view_changed& x);
  void perform(membership::started& x);
  void perform(membership::failed& x);
  void perform(membership::left& x);
  void perform(membership::job_ends& x);
  void perform(membership::ended& x);

  const membership_context& context_;
  peer_connections& connections_;
  member_role& members_;
  std::uint64_t watchdog_ = 0; ///< Number of the last timeout.
  bool lanes_open_ = false;    ///< The lanes of this process to all others.
};

} // namespace troupe
