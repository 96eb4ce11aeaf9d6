#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Admits one process for each task of a job, and gives them the first view.
/// Starts the job when all are connected to each other, and ends the job. This
/// is the side of the leader, task 0; `participant` is the side of all others.
/// The members agree on later views by another protocol (view_change.hpp).
///
///   who      a leader, and a participant for every other task. A process draws
///            a random incarnation when it starts
///   messages participant: join request, in the hello of its connection; ready;
///            leave, also to other participants; abort
///            leader: reject; view; start; abort; shutdown; leave_ack
///   start    with the leader's own request
///   on join request  for a free task, with equal configuration: admitted. The
///            last one forms view 1, which is sent to all
///   on ready  of the view, from all processes: start, to all
///   on leave  leave_ack. Before the start: the job cannot begin
///   on lost  before view 1: the task is free again
///            before the start: the job cannot begin
///   on timeout  before the start: the job cannot begin; the failure names the
///            tasks that are missing or not ready
///   end      shutdown, to all; ended when all have answered or are lost.
///            If the job goes on without the leader: leave, to all
///   cost     P - 1 messages for view 1, ready, start and shutdown
///   faults   unknown task; second process for a task whose process is alive;
///            different configuration; request after view 1 -> rejected
///            message of an older incarnation, of an older view, or of a kind
///            that only the leader sends -> ignored
namespace troupe::membership {

class leader {
public:
  /// @param tasks number of tasks of the job, at least 1.
  /// @param self  the leader's own request.
  leader(std::uint32_t tasks, const join_request& self);

  /// To be called first. A job of one task has all its processes already.
  reaction begin();
  reaction on(const join_request& request);
  /// @param incarnation the process that sent the message.
  reaction on(std::uint32_t task, std::uint64_t incarnation,
              const message& received);
  /// The connection to a process has ended.
  reaction on_lost(std::uint32_t task, std::uint64_t incarnation, ec code,
                   const std::string& reason);
  /// The connection to a process of the running job was cut and has been made
  /// again. Sends what the process may not have received.
  reaction on_reconnected(std::uint32_t task) const;
  /// A later view has taken effect.
  void on_installed(const membership::view& next);
  /// The start timeout has elapsed. No effect after the start.
  reaction on_timeout();

  /// The lanes of the leader are open, and it is connected to all others.
  reaction on_ready();
  /// The leader cannot take part in the start.
  reaction on_abort(ec code, const std::string& reason);
  /// Ends the job. No effect when called again.
  reaction leave();
  /// Leaves the job, which goes on with a view without the leader.
  reaction leave_running_job();

  const membership::view& view() const { return view_; }
  /// The leader waits for processes, before the first view.
  bool is_gathering() const { return phase_ == phase::gathering && !leaving_; }
  /// Tasks that no process has taken, ascending.
  std::vector<std::uint32_t> missing() const;

private:
  enum class phase { gathering, connecting, running, failed };
  /// The process of a task.
  struct joined_process {
    join_request request;
    bool ready = false;
  };

  joined_process* find(std::uint32_t task, std::uint64_t incarnation);
  std::optional<rejection> check(const join_request& request) const;
  void form_view_if_complete(reaction& out);
  void start_if_ready(reaction& out);
  void remove(reaction& out, std::uint32_t task);
  void fail(reaction& out, failure_report why);
  void send_to_all(reaction& out, const message& what) const;
  std::vector<std::uint32_t> participants() const;

  process_config config_;
  std::vector<std::optional<joined_process>> processes_; ///< By task.
  membership::view view_;
  phase phase_ = phase::gathering;
  bool leaving_ = false;
  bool job_goes_on_ = false; ///< It goes on without the leader, who leaves.
};

} // namespace troupe::membership
