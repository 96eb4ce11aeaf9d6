#pragma once

#include "troupe/apps/troupe/launcher/child_processes.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>

/// Decides which processes of a job are started again after a signal has ended
/// them, and when. The delays of one process double from 100 ms to 5 s, and are
/// shortened at random by up to a half. If 10 processes that were killed are
/// started again within 10 s, no further one is.
class restart_policy {
public:
  using clock = std::chrono::steady_clock;

  static constexpr std::size_t max_intensity = 10;
  static constexpr std::chrono::seconds intensity_window{10};
  static constexpr std::chrono::milliseconds first_delay{100};
  static constexpr std::chrono::milliseconds last_delay{5000};

  /// @param restarts maximum number of restarts of all processes together.
  explicit restart_policy(std::uint64_t restarts,
                          std::uint64_t seed = std::random_device{}())
    : left_{restarts}, dice_{seed} {}

  /// Whether a process is started again, and why not.
  enum class decision : std::uint8_t {
    restart,
    used_up,   ///< No restarts are left.
    too_often, ///< Too many processes were started again in a short time.
    cancelled, ///< `cancel` was called.
  };

  /// A signal has ended a process. It is started again if restarts are left.
  decision on_killed(const std::string& name, clock::time_point now);
  /// A process was killed on purpose and is needed again. It does not count as
  /// one that was killed.
  void repeat(const std::string& name, clock::time_point now);
  /// No process is started again.
  void cancel() {
    is_cancelled_ = true;
    due_.clear();
  }
  bool is_cancelled() const { return is_cancelled_; }
  /// The processes that wait for their start are not started, because all
  /// processes are.
  void clear() { due_.clear(); }
  /// Returns the name of a process to start now. None: there is none.
  std::optional<std::string> take(clock::time_point now);
  /// Time of the next start. None: no start is due.
  std::optional<clock::time_point> next() const;

private:
  void schedule(const std::string& name, clock::time_point now);

  std::uint64_t left_;
  bool is_cancelled_ = false;
  std::mt19937_64 dice_;
  std::map<std::string, std::chrono::milliseconds> delays_; ///< The last ones.
  std::multimap<clock::time_point, std::string> due_;
  std::deque<clock::time_point> recent_;
};

/// What the failure of one process means for a job whose workers begin together
/// and go on without those that are lost.
enum class failure_effect : std::uint8_t {
  ends_job,
  all_start_again, ///< No worker has computed anything.
  joins_again,     ///< It is started again and joins the others.
  none,            ///< The others go on without it.
};

/// Returns the effect of a process that has failed by itself and has not left
/// its job. If another one was killed before the job began, that can be the
/// cause: then the process would not have failed without this loss.
/// @param was_one_killed a signal has ended a process since all were started.
/// @param can_restart    processes are started again.
failure_effect effect_of(const process_exit& failed, bool was_one_killed,
                         bool can_restart);

/// What the running processes of such a job can still do.
enum class job_outlook : std::uint8_t {
  goes_on,
  /// All processes with the state of the job have ended or left. One that was
  /// started with the job, and is about to begin it, needs no state of another.
  lacks_state,
  all_left, ///< All that run have left the job.
};

/// @param has_begun a process has said that the job has begun.
/// @param running   those that run. Empty: the job goes on if it did so before.
job_outlook outlook_of(bool has_begun, std::span<const job_process> running);
