#pragma once

#include "troupe/actors/group/job_status_source.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace troupe {

/// What a group that runs its replicas in turn does now. One thread writes it;
/// any thread reads it.
class step_position final : public job_status_source {
public:
  /// Marks a run as active during its lifetime.
  class run_guard {
  public:
    /// @param operation as `failure_report::operation`, for all steps.
    run_guard(step_position& position, std::uint64_t run,
              std::uint64_t generation, std::string operation);
    ~run_guard();
    run_guard(const run_guard&) = delete;
    run_guard& operator=(const run_guard&) = delete;

  private:
    step_position& position_;
  };

  /// @param step number that the step has for the user.
  void begin_step(std::uint64_t step);
  /// A replica runs from now on.
  void enter(std::uint32_t replica);
  /// The step is committed, and its callback runs.
  void begin_callback();

  job_status status(std::chrono::milliseconds timeout) override;

private:
  using clock = std::chrono::steady_clock;

  mutable std::mutex lock_; // guards operation_
  std::string operation_;
  std::atomic<std::uint64_t> run_ = 0; ///< Zero: no run is active.
  std::atomic<std::uint64_t> generation_ = 0, step_ = 0;
  std::atomic<std::uint32_t> replica_ = 0;
  std::atomic<bool> in_callback_ = false;
  std::atomic<clock::rep> since_ = 0; ///< Time of the last change.
};

} // namespace troupe
