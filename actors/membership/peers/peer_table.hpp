#pragma once

#include "troupe/actors/collectives/packet_counts.hpp"
#include "troupe/actors/core/wait_clock.hpp"
#include "troupe/actors/core/wait_strategy.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/membership/peers/stream_table.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/membership/view_messages.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

class job_status_source;

/// What a process knows of its job. The membership actor writes the table. The
/// thread that joins and leaves, the replica group and the status service read
/// it. The table also holds the streams from which lanes are made.
class peer_table {
public:
  /// Control connection to another process. Before the first view, a
  /// participant has only the one to the leader.
  struct peer_entry {
    /// Null: the process has not connected.
    std::shared_ptr<net::connection> connection;
    /// Incarnation that the other process drew at its start.
    std::uint64_t incarnation = 0;
    bool has_left = false; ///< It has left, or knows that this process leaves.
    /// How and why the connection has ended. None: it is open.
    std::optional<std::pair<net::close_reason, std::string>> closed;
  };
  using clock = wait_clock;

  /// What the membership actor and the replica group of this process tell each
  /// other during a view change. See `view_change_host` and `elastic_group`.
  struct replica_stop {
    /// The replicas of this process belong to a group that enters later views.
    bool has_group = false;
    /// From `view_change::stop` until the next view takes effect: no step may
    /// begin.
    bool requested = false;
    bool stopped = false; ///< The replicas have stopped.
    /// Where they have stopped. None: this process does not have the state of
    /// the job.
    std::optional<view_change::job_position> position{};
    /// Ends the run of the group. Null: there is no group.
    std::function<void(const failure_report&)> end_run{};
    /// Why all runs of this process end, also those of later groups. None: they
    /// do not.
    std::optional<failure_report> end_of_runs{};
    /// The program of this process wants to stop. It is called with the lock
    /// held. Null: the program cannot say so.
    std::function<bool()> is_to_stop{};
    bool recovers = false; ///< This process recovers.
    /// Called when `requested` is set and the replicas still run. Null: no
    /// call.
    std::function<void()> on_requested{};
    /// Tells the status of the group's run. Null: there is no group.
    std::shared_ptr<job_status_source> status_source{};
  };

  /// Processes that ask to join while the program of this process is at a
  /// position at which none can begin. Such a process asks again until it is
  /// admitted.
  struct candidate_deferral {
    bool active = false;
    /// By incarnation: those that have asked. Their time limit is set when
    /// they are admitted; none that has passed it is waited for.
    std::map<std::uint64_t, std::optional<clock::time_point>> waiting;
  };

  /// Results of the calls of the job, which a process that joins needs.
  struct result_log {
    static constexpr std::size_t max_bytes = std::size_t{64} << 20;
    std::vector<std::string> results; ///< By call.
    std::size_t bytes = 0;            ///< Sum of their sizes.
    /// Candidate: how often all processes that were asked have answered, or
    /// were lost.
    std::uint64_t answers = 0;
    /// Why no process can join the job. Empty: processes can join.
    std::string rejection;
  };

  /// @param waits how threads wait for a change. Null: they block.
  explicit peer_table(std::size_t task_count,
                      std::shared_ptr<wait_strategy> waits = nullptr)
    : entries(task_count), waits_{std::move(waits)} {}

  /// Waits until `done` returns true or the deadline has passed. Calls `done`
  /// with the lock held.
  /// @returns false if the deadline has passed and `done` returns false.
  template <class F>
  bool wait(std::unique_lock<std::mutex>& hold, clock::time_point deadline,
            F&& done) {
    if (waits_)
      return waits_->wait(
        hold, done,
        std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()));
    return changed.wait_until(hold, deadline, std::forward<F>(done));
  }

  /// Changes the table and wakes the threads that wait for a change.
  template <class F>
  void update(F&& change) {
    const std::lock_guard hold{lock};
    change();
    changed.notify_all();
    if (waits_)
      waits_->notify();
  }

  /// Returns the result of `read`, which is called with the lock held.
  template <class F>
  auto get(F&& read) {
    const std::lock_guard hold{lock};
    return read();
  }

  /// Ends the active run of this process and each later one, and its waits for
  /// other processes.
  void end_runs(const failure_report& why) {
    std::function<void(const failure_report&)> end_run;
    update([&] {
      stop.end_of_runs = why;
      end_run = stop.end_run;
    });
    if (end_run)
      end_run(why);
  }

  /// Returns the numbers of the packets between this process and that of a task
  /// in a view. @pre the lock is held.
  std::shared_ptr<packet_counts> counts_of(std::uint64_t view_id,
                                           std::uint32_t task) {
    auto& out = counts[{view_id, task}];
    if (!out)
      out = std::make_shared<packet_counts>();
    return out;
  }

  std::mutex lock;
  std::condition_variable changed;
  std::vector<peer_entry> entries; ///< By task.
  stream_table streams;
  /// Numbers of packets between this process and another one, by id of the view
  /// and task.
  std::map<std::pair<std::uint64_t, std::uint32_t>,
           std::shared_ptr<packet_counts>>
    counts;
  /// The current membership. Its id is zero until the first one is agreed on.
  membership::view view;
  std::uint64_t own_incarnation = 0; ///< Incarnation of this process.
  /// Receives the events of this process. Null: no events are recorded.
  /// Constant after the start.
  std::shared_ptr<flight_recorder> recorder;
  replica_stop stop;
  candidate_deferral deferral;
  result_log log;
  /// The current view is without this process.
  bool excluded = false;
  /// This process wanted that. Needs `excluded`.
  bool has_left = false;
  /// The job has ended, or too few members of the view answer to agree on the
  /// next one.
  bool no_next_view = false;
  /// Before the start: which tasks have an address whose host is unknown, and
  /// why. Each begins with "; ". Empty: none is known.
  std::string unknown_hosts;
  /// Why the job cannot begin. None: the start has not failed.
  std::optional<failure_report> failed;
  /// `started`: the job has begun. `may_close`: this process has left, and its
  /// connections may be closed.
  bool started = false, may_close = false;

private:
  const std::shared_ptr<wait_strategy> waits_;
};

} // namespace troupe
