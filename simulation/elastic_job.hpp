#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/membership/peers/peer_table.hpp"
#include "troupe/simulation/simulated_network.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

// A simulated job that goes on when processes are lost and when processes join.
// Each simulated process has the membership actor and the elastic group of a
// real worker, and runs its program on a fiber. Lanes belong to one view. All
// waits, also those of the program, end on the virtual clock.

namespace troupe::simulation {

struct elastic_job_options {
  std::uint32_t processes = 2; ///< In [1, replicas].
  std::uint32_t replicas = 4;
  simulation::network_options network{};
  /// True: each process learns that another one has ended, as on one host.
  bool on_one_host = true;
  /// True: a launcher ends a process that others report as unreachable, and
  /// says which processes live. Needs `on_one_host`.
  bool has_launcher = false;
  /// True: processes make a connection that was cut again. False: the network
  /// no longer connects the two processes.
  bool reconnects = true;
  std::chrono::milliseconds step_timeout{10'000};
  std::chrono::milliseconds start_timeout{10'000};
  std::chrono::milliseconds shutdown_timeout{5'000};
};

/// Where the program of a process is in its calls of the replica group.
enum class run_phase : std::uint8_t {
  starting, ///< It waits for the first view, or for the view to start.
  idle,     ///< It is outside of the group.
  running,  ///< In a run.
  asking,   ///< It joins, and asks for the results of calls.
  joining,  ///< It joins, and waits for its first view.
  changing, ///< Its replicas have stopped, and it waits for the next view.
  opening,  ///< It opens the lanes of a view.
  ended,    ///< It leaves the job, or has ended.
};

/// One life of a process: from its start to its end. A process that is started
/// again has another life.
struct process_life {
  enum class fate : std::uint8_t {
    alive,
    killed,      ///< It has ended at once.
    partitioned, ///< It lives, but reaches no other process.
    ended,       ///< Its program has ended.
  };

  std::uint64_t number = 0; ///< Counts the lives of a job from 1.
  std::uint32_t task = 0;
  std::uint64_t incarnation = 0;
  bool joins = false; ///< It was started to join the running job.
  fate state = fate::alive;
  /// When it was killed, or its program has ended. None: neither.
  std::optional<caf::timespan> ended_at;
  bool is_stopped = false; ///< Between `stop` and `go_on`.
  /// For `fit_options::leave`.
  std::atomic<bool> leave{false};
  run_phase phase = run_phase::starting;
  bool in_user_code = false; ///< During `elastic_job::pause`.
  /// The program of the chief has processed the steps before this one, as far
  /// as this process knows.
  std::uint64_t processed_by_chief = 0;
  /// Kind of the last message about a view change that it has sent since it
  /// took its view. None: there was none.
  std::optional<view_change::message_kind> last_sent;
  /// The views that it has taken, in their order, and when.
  std::vector<membership::view> views;
  std::vector<caf::timespan> view_times;
  std::shared_ptr<peer_table> peers;
  /// It has given up its job, and has taken the next view at the same time.
  bool gave_up_too_early = false;
  bool is_completed = false; ///< Its program has returned.
  /// When its program has returned. None: it has not.
  std::optional<caf::timespan> completed_at;
  /// Exception of its program or of its start. Null: none.
  std::exception_ptr error;

  bool can_act() const { return state == fate::alive && !is_stopped; }
};

/// A simulated job and the faults of its processes.
class elastic_job {
public:
  /// Program of each process.
  using program = std::function<void(process_life&, const strategy&)>;

  /// A role of a process was spawned that commits the steps of a view.
  struct chief_record {
    std::uint64_t view_id = 0;
    std::uint64_t life = 0;
  };

  /// @param sim    must outlive this object.
  /// @param faults fault injector of messages and packets; null: none. Must
  ///               outlive this object.
  elastic_job(simulator& sim, const elastic_job_options& options, program fn,
              fault_injector* faults = nullptr);
  ~elastic_job();
  elastic_job(const elastic_job&) = delete;
  elastic_job& operator=(const elastic_job&) = delete;

  /// Runs the job until all programs have ended.
  /// @param between called between any two messages; may make faults. Empty:
  ///                not called.
  /// @param limit   maximum time on the virtual clock.
  /// @returns false if some program has not ended in time.
  bool run(const std::function<void()>& between, std::chrono::seconds limit);

  // -- faults -----------------------------------------------------------------

  /// Ends a process at once.
  /// @param is_noticed true: its connections end. False: they are silent, as if
  ///                   its host had lost power.
  void kill(std::uint32_t task, bool is_noticed = true);
  /// Stops a process as SIGSTOP does.
  void stop(std::uint32_t task);
  void go_on(std::uint32_t task);
  /// Drops all further messages between a process and the others.
  void partition(std::uint32_t task);
  /// Drops all further messages between two groups of processes: those of the
  /// given tasks, and all others.
  void split(const std::set<std::uint32_t>& tasks);
  /// Ends the connections and lanes between two processes.
  void cut(std::uint32_t task, std::uint32_t peer);
  /// From now on no process can connect to that of a task, nor open lanes to
  /// it. Connections that stand are not affected.
  void block(std::uint32_t task);
  /// Starts a process of a task that was killed. It joins the job, or takes
  /// part in its start if no process has begun.
  void start_again(std::uint32_t task);
  /// Lets the program of a process wait, as one that computes. Only this
  /// program may call it.
  void pause(process_life& of, std::chrono::milliseconds duration);
  /// Makes a call between two messages, after a time on the virtual clock.
  void after(std::chrono::milliseconds delay, std::function<void()> call);

  // -- queries ----------------------------------------------------------------

  std::uint32_t count() const; ///< Number of tasks.
  /// The last life of a task.
  process_life& life_of(std::uint32_t task);
  const std::vector<std::unique_ptr<process_life>>& lives() const;
  /// In the order in which the chiefs were spawned.
  const std::vector<chief_record>& chiefs() const;
  /// Errors that have ended membership actors. Empty: none.
  const std::vector<std::string>& membership_errors() const;
  /// Number of messages about view changes that were sent.
  std::uint64_t view_messages() const;
  /// How often the launcher has said which processes live.
  std::uint64_t survivors_named() const;
  /// Number of processes that the launcher has ended.
  std::uint64_t launcher_kills() const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe::simulation
