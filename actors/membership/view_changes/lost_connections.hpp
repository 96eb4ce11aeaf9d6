#pragma once

#include "troupe/actors/membership/peers/peer_connections.hpp"
#include "troupe/actors/membership/peers/reconnector.hpp"
#include "troupe/actors/membership/view_changes/view_change_host.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// The connections of a process to other members that have ended. Those that
/// were cut are made again (`reconnector`). Those of processes of this host are
/// watched until the process has ended. All others count as lost, which this
/// object reports to the view changes.
class lost_connections : reconnector::owner {
public:
  using process_id = view_change::process_id;
  using cut_connection = reconnector::cut_connection;

  /// The role of the process, which decides about the start and the end of the
  /// job.
  class owner {
  public:
    virtual ~owner() = default;
    /// The connection to a process has ended for good.
    virtual void on_lost(const process_id& process,
                         const cut_connection& how) = 0;
    /// The connection to a member of the running job was made again.
    virtual void on_reconnected(const process_id& process) = 0;
  };

  /// All must outlive this object.
  lost_connections(const membership_context& context,
                   peer_connections& connections,
                   view_change_host& view_changes, owner& owner);

  void on_closed(const peer_connections::ended_connection& ended,
                 const membership_event::closed& x);
  /// A member has dialed this process. This process may not know yet that the
  /// earlier connection was cut.
  void on(const membership_event::accepted_again& x);
  void on(const membership_event::dial_again& x) { reconnects_->on(x); }
  void on(const membership_event::dialed_again& x) { reconnects_->on(x); }
  void on(const membership_event::not_reconnected& x) { reconnects_->on(x); }
  void on(const membership_event::end_check& x);

  /// Dials members that were silent once more: those that were stopped may
  /// answer again.
  /// @returns false if each of them was dialed once more, or has ended.
  bool dial_silent_members(const std::vector<std::uint32_t>& tasks);
  /// Tells the view changes the members to which there is no connection. One
  /// that was cut while this process or the other one was joining is made
  /// again.
  void report_missing(const membership::view& view);
  /// A view takes effect: forgets former members.
  void forget_former_members(const membership::view& next);
  /// A view has taken effect.
  void on_installed(const membership::view& next);

  /// True if the connection to the process is being made again.
  bool awaits(const process_id& process) const {
    return reconnects_ && reconnects_->awaits(process);
  }
  /// True if a connection to a process of this task is being made again.
  bool awaits_task(std::uint32_t task) const {
    return reconnects_ && reconnects_->awaits_task(task);
  }
  /// True if it is not known yet whether the process of this task has ended.
  bool may_have_ended(std::uint32_t task) const;
  /// Returns the process of this host with this incarnation, to which the
  /// connection has ended. Null: there is none, or it has ended.
  const net::process_handle* lost_process(std::uint64_t incarnation) const;
  /// By task: how the connections to members of the view have ended.
  std::map<std::uint32_t, std::string> losses() const;

private:
  bool is_member(const process_id& process) const;
  void give_up(const process_id& process, const cut_connection& how,
               bool was_silent = false);
  void refuse_former_member(const membership_event::accepted_again& x);

  void pass_later(std::chrono::milliseconds delay,
                  const membership_event::dial_again& event) override;
  void pass_later(std::chrono::milliseconds delay,
                  const membership_event::not_reconnected& event) override;
  membership_options::dial_callback
  dial_callback(const process_id& process) override;
  std::chrono::milliseconds time() const override;
  void on_reconnected(const process_id& process,
                      std::shared_ptr<net::connection> connection,
                      const cut_connection& before) override;
  void on_not_reconnected(const process_id& process,
                          const cut_connection& before) override;

  const membership_context& context_;
  peer_connections& connections_;
  view_change_host& view_changes_;
  owner& owner_;
  /// Empty: no connection is made again.
  std::optional<reconnector> reconnects_;
  /// By incarnation: processes of this host to which the connection has ended,
  /// and which have not ended.
  std::map<std::uint64_t, std::shared_ptr<const net::process_handle>>
    processes_;
  /// Incarnations of the processes of this host that may be ending.
  std::set<std::uint64_t> ending_;
  /// By incarnation: members that were silent, so that the connection to them
  /// has ended, and that are not known to have ended.
  std::map<std::uint64_t, cut_connection> silent_;
  /// Incarnations of silent members that were dialed once more since then.
  std::set<std::uint64_t> dialed_;
};

} // namespace troupe
