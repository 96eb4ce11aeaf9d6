#pragma once

#include "troupe/apps/troupe/launcher/local_launcher.hpp"
#include "troupe/apps/troupe/launcher/worker_restarts.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

/// Ends the processes of a job with parameter servers, which `local_launcher`
/// has started, when the chief has ended. Then the workers and servers get
/// SIGTERM, and the evaluator may continue for the grace period. If no worker
/// is left, the chief alone is told to end, because it needs the servers to
/// save the run.
class server_supervisor {
public:
  static constexpr auto chief = "chief 0";
  static constexpr auto evaluator = "evaluator 0";

  static bool is_worker(const std::string& name) {
    return name.starts_with("worker ");
  }
  static bool is_server(const std::string& name) {
    return name.starts_with("ps ");
  }

  /// @param workers      number of workers that `launcher` has started.
  /// @param needs_worker the job is ended, too, if all workers have failed.
  /// @param end_chief    tells the chief to end then.
  server_supervisor(local_launcher& launcher, worker_restarts& restarts,
                    std::uint64_t workers, bool needs_worker,
                    std::function<void()> end_chief)
    : launcher_{launcher},
      restarts_{restarts},
      starts_{workers},
      needs_worker_{needs_worker},
      end_chief_{std::move(end_chief)} {}

  /// Call it as `on_idle` of `local_launcher::wait`.
  std::optional<std::chrono::steady_clock::time_point> on_idle();

  /// Returns how the chief has ended. Null: it runs.
  const process_exit* chief_end() const;
  /// How the last worker has ended, if the job was ended because none was left.
  const std::optional<process_exit>& last_worker() const {
    return last_worker_;
  }

private:
  void end_job();
  const process_exit* last_worker_end() const;

  local_launcher& launcher_;
  worker_restarts& restarts_;
  std::uint64_t starts_; ///< Starts of workers.
  const bool needs_worker_;
  const std::function<void()> end_chief_;
  bool is_ending_ = false;
  std::optional<process_exit> last_worker_;
};
