#pragma once

#include "troupe/actors/membership/view_changes/launcher_questions.hpp"
#include "troupe/actors/membership/view_changes/lost_connections.hpp"
#include "troupe/actors/membership/view_changes/view_change_host.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A process as a member of the running job: takes part in the changes of its
/// view, and stops its replicas for them. Has no effect before `begin`.
class member_role : view_change_host::owner {
public:
  /// What a member needs from the actor.
  class owner : public lost_connections::owner {
  public:
    /// A view has taken effect, and this process is a member of it.
    virtual void on_installed(const membership::view& next) = 0;
    /// Closes the connections to all processes.
    virtual void close_all(const std::string& reason) = 0;
    /// This process leaves the job, which continues.
    virtual void leave_running_job() = 0;
  };

  /// All must outlive this object.
  member_role(const membership_context& context, peer_connections& connections,
              owner& owner);

  /// The job has begun with this view.
  void begin(const membership::view& first);
  /// This process has joined the running job.
  void begin(const view_change::numbered_proposal& decision);
  /// This process takes no further part: it leaves, or the job ends.
  void end() { view_changes_.end(); }
  /// True from `begin` on, also after `end`.
  bool has_begun() const { return view_changes_.has_begun(); }

  lost_connections& losses() { return losses_; }
  const lost_connections& losses() const { return losses_; }

  void on(const view_change::process_id& sender,
          const view_change::message& received) {
    view_changes_.on(sender, received);
  }
  void on(const membership_event::replicas_stopped& x);
  void on(const membership_event::stop_overdue& x);
  void on(const membership_event::renewal_wanted& x);
  void on(const membership_event::no_lanes& x);
  void on(const membership_event::leaving& x);
  void on(const membership_event::undecided& x);
  void on(const membership_event::survivors_asked& x);
  /// The timer with this number has elapsed. An older number has no effect.
  void on_timeout(std::uint64_t number) { view_changes_.on_timeout(number); }
  /// A process is known to have ended, or takes no further part.
  void on_dead(std::uint64_t incarnation) {
    view_changes_.on_dead(incarnation);
  }
  /// A process that is connected to this one asks to join.
  void on_join(const membership::member& candidate) {
    view_changes_.on_join(candidate);
  }

private:
  void send(const view_change::process_id& receiver,
            const view_change::message& what) override;
  void set_view_timer(std::chrono::milliseconds delay,
                      std::uint64_t number) override;
  bool stop_replicas() override;
  std::optional<view_change::job_position> stopped_position() override;
  bool defers_candidates() override;
  void on_installed(const membership::view& next) override;
  void on_removed(const membership::view& next, bool left) override;
  bool may_have_ended(std::uint32_t task) override;
  void on_silence(const std::vector<std::uint32_t>& silent_tasks) override;
  void on_no_majority(const std::vector<std::uint32_t>& silent_tasks) override;
  void on_state_lost() override;

  std::string reason_of_change() const;
  void enter(const membership::view& next);
  void report_excluded(const membership::view& next) const;
  bool report(std::uint32_t task) const;
  bool report_half(const std::vector<std::uint32_t>& silent_tasks) const;
  bool ask_for_survivors(const std::vector<std::uint32_t>& silent_tasks);
  bool are_silent(const std::vector<std::uint32_t>& tasks) const;
  void give_up_if_silent(const std::vector<std::uint32_t>& tasks);
  void give_up(const std::vector<std::uint32_t>& silent_tasks);

  const membership_context& context_;
  peer_connections& connections_;
  owner& owner_;
  view_change_host view_changes_{*this};
  lost_connections losses_;
  launcher_questions questions_;
};

} // namespace troupe
