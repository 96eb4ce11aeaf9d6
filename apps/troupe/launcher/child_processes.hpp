#pragma once

#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/cluster/survivors_question.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

class group_guard;

/// Environment variables that differ from those of this process. A variable
/// without a value is unset.
using environment_changes = std::map<std::string, std::optional<std::string>>;

/// A program to start as a child process.
struct process_spec {
  std::string name;                 ///< Name in messages, such as "worker 1".
  std::vector<std::string> command; ///< The first word is looked up in PATH.
  environment_changes variables{};
  /// The process is not needed: its exit code is not the first failure.
  bool may_fail = false;
  /// It joins a job that has begun. If the job is done before it has begun, it
  /// is ended at once.
  bool joins = false;
};

/// How a child process ended.
struct process_exit {
  std::string name;
  int code = 0;          ///< Exit code; 128 + `signal` if `signal` is not 0.
  int signal = 0;        ///< Signal that ended the process. Zero: it exited.
  bool may_fail = false; ///< As in `process_spec`.
  /// It had left its job, which goes on without it.
  bool left = false;
  bool has_lost_device = false; ///< It had left, because a device had failed.
  /// It was killed so that others could be certain which workers live. It had
  /// not joined the job yet.
  bool was_superseded = false;
  bool joined = false;    ///< As `process_spec::joins`.
  bool had_begun = false; ///< It had said that it belongs to its job.
  /// Another one that runs had said so, and had not left.
  bool job_had_begun = false;

  bool failed() const { return code != 0; }
  /// The process has completed its part of the job.
  bool completed() const { return code == 0 && !left; }
};

/// What a running process of a job has said over its link.
struct job_process {
  bool has_begun = false; ///< It belongs to the job, and has its state.
  bool has_left = false;  ///< It has left the job.
  bool joins = false;     ///< As `process_spec::joins`.
};

/// Returns the exit as text: "exit code 3" or "signal 9 (Killed)".
std::string reason(const process_exit& ended);

struct child_processes_options {
  /// Time for which processes may continue after the first failure or a call of
  /// `signal`. Then each process gets SIGTERM, or SIGKILL if it is stopped.
  /// After a second grace period, each running process gets SIGKILL. A process
  /// that is stopped (SIGSTOP) at the first failure gets SIGKILL immediately.
  std::chrono::milliseconds grace_period{10'000};
  /// The processes are the workers of one job. If a signal ends some of them,
  /// the others may go on without them. A worker may ask which of them live
  /// (`net::launcher_link`); then some may be killed, as `net::rule_on` says.
  /// When a worker exits with code 0 and has not left the job, the job is done.
  /// The others have to end within `grace_period`, and their exit codes are no
  /// failures.
  bool is_job = false;
  /// Name of the only process whose end can mean that the job is done. Empty:
  /// it is any. Needs `is_job`.
  std::string chief{};
  /// Called before a process is killed because it does not answer another one.
  /// Needs `is_job`.
  std::function<void(const std::string& name)> on_unreachable{};
  /// Called when a process has failed by itself, and has not left its job.
  /// True: the job goes on, as if a signal had ended the process. Needs
  /// `is_job`.
  std::function<bool(const process_exit&)> is_loss{};
  /// Called when a process has ended, before its last output is passed on.
  std::function<void(const process_exit&)> on_end{};
  /// Called with each line of output, without its line break. A line of more
  /// than `max_line_bytes` arrives in pieces. `out` is true for standard output
  /// and false for standard error. If it throws, `poll_once` passes the
  /// exception on.
  std::function<void(const std::string& name, bool out, std::string_view line)>
    on_line{};
};

/// Child processes that do not outlive this process. The destructor ends them
/// and the processes that they have started. If the thread that started a child
/// ends first, the kernel kills the child. If this process ends in any way, a
/// `group_guard` kills the processes that the children have started, unless
/// they have process groups of their own.
///
/// Each child leads its own process group, and its standard input is /dev/null.
/// Of this process's descriptors, a child inherits only the two for its output
/// and one for a `net::launcher_link`. Before a signal that ends a child, `end`
/// is sent over that link. So the signal cannot mean that only this child
/// leaves its job. An object of this class may be used by one thread at a time.
class child_processes {
public:
  static constexpr std::size_t max_line_bytes = 8192;

  explicit child_processes(child_processes_options options);
  /// Ends the processes that still run, within `grace_period`.
  ~child_processes();
  child_processes(const child_processes&) = delete;
  child_processes& operator=(const child_processes&) = delete;

  /// Starts a program.
  /// @errors throws std::invalid_argument if there is no such program,
  ///         std::runtime_error if it cannot be started.
  void start(const process_spec& spec);

  /// Waits for output, for the end of a process, or until descriptor `extra` is
  /// readable (-1: no descriptor). Then passes on the output, reaps processes
  /// that ended, and sends signals that are due.
  /// @param max_wait maximum time to wait.
  void poll_once(std::chrono::milliseconds max_wait, int extra = -1);

  /// Sends a signal to all running processes, without a deadline for their end.
  void send(int signal_number);
  /// The same to the running process of this name.
  void send(const std::string& name, int signal_number);
  /// Sends a signal to all running processes. They have to end within
  /// `grace_period` from now on.
  void signal(int signal_number);
  /// The same, but only those whose name `gets` accepts get the signal.
  void signal(int signal_number,
              const std::function<bool(const std::string& name)>& gets);

  /// Kills the running processes, because all are to be started again: the job
  /// has not begun.
  void supersede();
  /// The running processes have to end within `grace_period` from now on.
  void expect_end();

  bool running() const;
  /// True if a process has completed the job.
  bool is_job_done() const;
  /// The processes that have ended, in the order of their ends.
  const std::vector<process_exit>& ended() const { return ended_; }
  /// The first process that ended with an exit code other than 0. With
  /// `is_job`, a process that was ended by a signal does not count.
  const std::optional<process_exit>& first_failure() const { return failure_; }
  /// True if a process has said over its link that its job has begun.
  bool has_begun() const { return has_begun_; }
  /// What the running processes have said. Empty: none runs.
  std::vector<job_process> running_processes() const;
  /// Names of the running processes that have not said that they belong to the
  /// job.
  std::vector<std::string> joining() const;
  /// True if a process that this object has not started may belong to the job.
  bool has_foreign_worker() const { return has_foreign_worker_; }
  /// Text to append to an error message. It names the children that were killed
  /// because they were stopped (SIGSTOP) at the first failure. Empty: none.
  const std::string& stopped_note() const { return stopped_note_; }

private:
  using clock = std::chrono::steady_clock;
  struct child;

  bool completes_job(const process_exit& end) const;
  void schedule_signal(std::chrono::milliseconds delay, int signal_number);
  void request_end();
  void kill_stopped();
  void end_joining();
  void read_reports(child& sender, std::size_t max_bytes);
  void on_report(child& sender, std::string_view line);
  bool kill_unreachable(child& target);
  void on_candidate(std::string_view words);
  void on_question(child& sender, std::string_view words);
  void consider_questions();
  void consider_question(child& asker);
  bool end_for(const troupe::net::survivors_ruling& ruling);
  troupe::net::survivors_ruling rule_on_question(const child& asker,
                                                 bool stopped_wait) const;
  child* running_child(std::uint64_t number) const;
  bool may_follow_a_kill(child& failed) const;
  void reap_exited();
  void reap(child& target);
  void escalate_shutdown();
  int poll_timeout(std::chrono::milliseconds max_wait) const;

  child_processes_options options_;
  /// Epoll descriptor. It reports children that have ended, in the order in
  /// which they ended.
  troupe::net::descriptor exit_events_;
  const std::unique_ptr<group_guard> guard_;
  std::vector<std::unique_ptr<child>> children_;
  std::vector<process_exit> ended_;
  bool has_begun_ = false;
  std::uint64_t questions_ = 0; ///< Number of questions so far.
  /// A process that this object has not started may belong to the job.
  bool has_foreign_worker_ = false;
  std::optional<process_exit> failure_;
  std::string stopped_note_;
  /// Time at which `next_signal_` is sent.
  std::optional<clock::time_point> due_;
  int next_signal_ = 0;
};
