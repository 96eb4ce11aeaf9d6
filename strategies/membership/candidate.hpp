#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

/// A process that was started to take a task of a running job connects to the
/// members. It asks to join when its program has come to where the job is.
///
///   who      a candidate, and the members of the current view
///   messages member: current_view, reject; candidate: join, leave
///   on connected  to a process: wait for its `current_view`
///   on current_view  of all members that the newest of these views names: the
///            candidate knows the job
///   on ask   join, to all connected processes
///   on timeout  while it asks: join, again
///   end      with the `install` of a view that contains it (view_change.hpp)
///   cost     2 messages for each member, and one more for each repetition
///   faults   rejected by a member, or not connected in time -> it cannot join
///            its task has a connected process -> the member closes the
///            connection, and the candidate tries again until the timeout
///            view that is impossible -> ignored
namespace troupe::membership {

class candidate {
public:
  /// @param tasks number of tasks of the job.
  candidate(std::uint32_t tasks, const join_request& self);

  /// This process is connected to the process of another task.
  void on_connected(std::uint32_t task, std::uint64_t incarnation);
  /// The connection to the process of this task has ended.
  void on_lost(std::uint32_t task);
  reaction on(std::uint32_t task, const message& received);
  /// @param reason  why the last attempt to connect to a process has failed.
  /// @param refusal why a process has closed the connection to this one. Empty:
  ///                none has.
  reaction on_timeout(const std::string& reason,
                      const std::string& refusal = {});

  /// The program of this process has come to the call that the job makes.
  reaction ask();
  /// Sends `join` again, if this process asks.
  reaction repeat() const;
  /// Leaves. No effect when called again.
  reaction leave();

  /// The newest view that a member has sent. Its id is zero before.
  const membership::view& view() const { return view_; }
  /// True from `started` on.
  bool knows_job() const {
    return phase_ == phase::waiting || phase_ == phase::asking;
  }
  bool is_asking() const { return phase_ == phase::asking; }
  /// True if this process has asked to join, and can be a member of this view.
  bool can_enter(const membership::view& next) const;
  /// Incarnation of the process that decides when the job ends. None: it was
  /// lost, so each process decides for itself.
  std::optional<std::uint64_t> leader() const { return leader_; }

private:
  enum class phase { connecting, waiting, asking, failed };

  bool is_possible(const membership::view& current) const;
  void start_if_connected(reaction& out);
  void fail(reaction& out, ec code, const std::string& reason);

  std::uint32_t tasks_;
  join_request self_;
  /// By task: incarnation of the process, and whether its view has arrived.
  struct connected {
    std::uint64_t incarnation = 0;
    bool is_member = false;
  };
  std::map<std::uint32_t, connected> connected_;
  membership::view view_;
  std::optional<std::uint64_t> leader_;
  phase phase_ = phase::connecting;
  bool leaving_ = false;
};

} // namespace troupe::membership
