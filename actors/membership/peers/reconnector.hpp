#pragma once

#include "troupe/actors/membership/peers/membership_internal_actor.hpp"
#include "troupe/actors/membership/peers/membership_options.hpp"
#include "troupe/actors/membership/peers/reconnection.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// Makes the connections between the members of a running job again that end
/// although neither process is known to have ended
/// (actors/membership/peers/reconnection.hpp). It passes events to the
/// membership actor, which owns it, and dials by the functions of its options.
class reconnector {
public:
  using process_id = view_change::process_id;

  /// What is known of a connection that was cut.
  struct cut_connection {
    ec code = ec::peer_lost;
    std::string reason; ///< Why it has ended.
    /// Why the last attempt to dial has failed. Empty: none has.
    std::string dial_failure{};
    /// As in the membership actor.
    std::shared_ptr<const net::process_handle> process{};
    std::optional<membership::join_request> request{};
  };

  /// What the reconnector needs from its owner.
  class owner {
  public:
    virtual ~owner() = default;
    /// Passes the event to `reconnector::on` after the delay, which may be
    /// zero.
    virtual void pass_later(std::chrono::milliseconds delay,
                            const membership_event::dial_again& event) = 0;
    virtual void pass_later(std::chrono::milliseconds delay,
                            const membership_event::not_reconnected& event) = 0;
    /// Returns a function that passes the result of a dial to
    /// `reconnector::on`.
    virtual membership_options::dial_callback
    dial_callback(const process_id& process) = 0;
    /// The time since an origin that never changes.
    virtual std::chrono::milliseconds time() const = 0;
    /// The connection was made again.
    virtual void on_reconnected(const process_id& process,
                                std::shared_ptr<net::connection> connection,
                                const cut_connection& before) = 0;
    /// It was not made in time.
    virtual void on_not_reconnected(const process_id& process,
                                    const cut_connection& before) = 0;
  };

  /// @param owner   must outlive this object.
  /// @param options must outlive this object.
  reconnector(owner& owner, const membership_options& options);

  /// The connection to a member of the current view has ended.
  void on_cut(const process_id& process, cut_connection how);
  /// A member of the current view is dialed once more. Its connection could not
  /// be made again, or was not made again because the member was silent.
  void dial(const process_id& process, cut_connection how);
  /// True if the connection to the process is being made again.
  bool awaits(const process_id& process) const {
    return cuts_.contains(process);
  }
  /// True if a connection to a process of this task is being made again.
  bool awaits_task(std::uint32_t task) const;
  /// The process has connected, or is known to have ended.
  /// @returns what is known of the connection that was cut. None: none was.
  std::optional<cut_connection> stop(const process_id& process);
  /// A view has taken effect: the connections to processes that are not its
  /// members are not made again.
  void on_installed(const membership::view& current);

  void on(const membership_event::dial_again& x);
  void on(const membership_event::dialed_again& x);
  void on(const membership_event::not_reconnected& x);

private:
  void perform(const reconnection::reaction& effects);
  void perform(const reconnection::dial& x);
  void perform(const reconnection::set_timer& x);
  void perform(const reconnection::lost& x);

  owner& owner_;
  const membership_options& options_;
  reconnection::state_machine machine_;
  std::map<process_id, cut_connection> cuts_;
};

} // namespace troupe
