#pragma once

#include "troupe/strategies/membership/view_change.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// Hosts the view changes of a process (strategies/membership/view_change.hpp):
/// carries out the effects of its state machine. It passes messages, timers and
/// views to the membership actor, which owns it.
class view_change_host {
public:
  /// Interval of the state machine's timers, after which messages that were not
  /// answered are sent again. It must be longer than two round trips between
  /// any two processes of the job.
  static constexpr std::chrono::milliseconds timer_interval{200};

  /// What the host needs from its owner.
  class owner {
  public:
    virtual ~owner() = default;
    /// Sends a message, if this process is connected to the receiver.
    virtual void send(const view_change::process_id& receiver,
                      const view_change::message& what) = 0;
    /// Calls `on_timeout` with this number after a delay.
    virtual void set_view_timer(std::chrono::milliseconds delay,
                                std::uint64_t number) = 0;
    /// Stops the replicas of this process: no step begins until the next view
    /// takes effect.
    /// @returns true if they have stopped. False: they still run, and
    ///          `on_stopped` follows.
    virtual bool stop_replicas() = 0;
    /// Where the replicas have stopped. None: this process does not have the
    /// state of the job. @pre they have stopped.
    virtual std::optional<view_change::job_position> stopped_position() = 0;
    /// True if no process can join at the position at which the replicas have
    /// stopped. @pre they have stopped.
    virtual bool defers_candidates() { return false; }
    /// A view has taken effect, and this process is a member of it.
    virtual void on_installed(const membership::view& next) = 0;
    /// A view has taken effect, and this process is no member of it.
    /// @param left true: it wanted to leave. False: it is excluded.
    virtual void on_removed(const membership::view& next, bool left) = 0;
    /// True if it is not known yet whether the process of this task, to which
    /// the connection has ended, has ended itself.
    virtual bool may_have_ended(std::uint32_t task) {
      (void)task;
      return false;
    }
    /// The members that answer are too few to agree on another view. The others
    /// may be reported to their launcher; it is too early to give up.
    virtual void on_silence(const std::vector<std::uint32_t>& silent_tasks) = 0;
    /// The same, for some time already.
    virtual void
    on_no_majority(const std::vector<std::uint32_t>& silent_tasks) = 0;
    /// No member that answers has the state of the job.
    virtual void on_state_lost() = 0;
  };

  /// @param owner must outlive this object.
  explicit view_change_host(owner& owner) : owner_{owner} {}

  /// The job has begun with this view. @pre it was not called before.
  void begin(const membership::view& first, std::uint64_t self);
  /// This process has joined the job with this view.
  void begin(const view_change::numbered_proposal& decision,
             std::uint64_t self);
  /// This process takes no further part: it leaves, or the job ends.
  void end() { machine_.reset(); }

  /// True from `begin` on, also after `end`.
  bool has_begun() const { return has_begun_; }

  // The functions below have no effect before `begin` and after `end`. A
  // message that arrives before `begin` is sent again by its sender.

  /// The connection to a process has ended.
  /// @param was_silent true: nothing was received for the heartbeat timeout.
  void on_lost(std::uint64_t incarnation, bool was_silent = false);
  /// The connection to a member has been made again.
  void on_reachable(std::uint64_t incarnation);
  /// A process is known to have ended, or has said that it takes no further
  /// part.
  void on_dead(std::uint64_t incarnation);
  /// The launcher of all processes of the job says which of them live. If one
  /// of them ends later, `on_no_majority` is called again.
  void on_survivors(const std::vector<view_change::process_id>& living);
  void on(const view_change::process_id& sender,
          const view_change::message& received);
  /// The replicas have stopped, after `stop_replicas`.
  void on_stopped();
  /// A member of the current view wants to leave.
  void on_leaving(std::uint64_t incarnation);
  /// The replicas of this process cannot go on in the current view, although no
  /// member is known to be lost.
  void on_renewal_wanted();
  /// The lanes of this process to a member cannot be opened.
  /// @param is_newer as in `view_change::state_machine::on_no_lanes`.
  void on_no_lanes(std::uint64_t incarnation, bool is_newer);
  /// A process that is connected to this one asks to join.
  void on_join(const membership::member& candidate);
  /// The members that do not answer were not given up: `on_no_majority` is
  /// called again if they are too few still.
  void await_majority() { silent_.clear(); }
  /// Returns why the members agree on another view.
  view_change::change_reasons reasons() const {
    return machine_ ? machine_->reasons() : view_change::change_reasons{};
  }
  /// True if a member is known to be lost.
  bool misses_members() const { return machine_ && machine_->misses_members(); }
  /// True if a member is known to have ended.
  bool is_dead(std::uint64_t incarnation) const {
    return machine_ && machine_->is_dead(incarnation);
  }
  /// True if a member is known to want to leave.
  bool has_leavers() const { return machine_ && machine_->has_leavers(); }
  /// True if a member wants to renew the current view.
  bool wants_renewal() const { return machine_ && machine_->wants_renewal(); }
  /// The timer with this number has elapsed. An older number has no effect.
  void on_timeout(std::uint64_t number);

private:
  void perform(const view_change::reaction& effects);
  void perform(const view_change::send& x);
  void perform(const view_change::stop&);
  void perform(const view_change::set_timer& x);
  void perform(const view_change::installed& x);
  void perform(const view_change::removed& x);
  void perform(const view_change::no_majority& x);
  void perform(const view_change::state_lost&);

  owner& owner_;
  /// Empty: the job has not begun, or this process takes no further part.
  std::optional<view_change::state_machine> machine_;
  bool has_begun_ = false;
  std::uint64_t timer_ = 0; ///< Number of the last timer.
  /// The tasks of the last `no_majority` of this view.
  std::vector<std::uint32_t> silent_;
};

} // namespace troupe
