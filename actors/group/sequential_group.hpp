#pragma once

#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/group/step_position.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <atomic>
#include <stdexcept>
#include <vector>

namespace troupe {

/// Base class of the groups that run all replicas on the caller's thread. It
/// runs the steps in order, one at a time.
class sequential_group : public replica_group {
public:
  explicit sequential_group(const replica_group_options& options)
    : options_{options},
      reports_(options.replicas),
      placement_{placement{options.replicas}} {
    commit_.contributors = placement_.replicas();
  }

  const local_placement& replica_placement() const override {
    return placement_;
  }

  std::uint64_t run(const run_request& request) override {
    if (running_)
      throw std::logic_error("run was called while another run is active");
    const running_flag flag{running_};
    stopping_ = false;
    use_threads(options_.threads);
    commit_.generation = generations_.begin_run(request.first_step);
    ++runs_;
    request_ = &request;
    record_event(options_.recorder, {.kind = flight_event_kind::run_begun,
                                     .generation = commit_.generation,
                                     .run = runs_,
                                     .step = shown(request.first_step),
                                     .text = operation_of(request.call)});
    const step_position::run_guard in_run{*position_, runs_, commit_.generation,
                                          operation_of(request.call)};
    auto step = request.first_step;
    for (; step - request.first_step < request.steps && !stopping_; ++step) {
      position_->begin_step(shown(step));
      run_step(request.step, step, commit_.generation);
      commit_.step = step;
      note(flight_event_kind::step_committed, step);
      sum_metrics(reports_, commit_.total);
      position_->begin_callback();
      if (request.on_commit)
        request.on_commit(commit_);
    }
    generations_.complete_run(step);
    note(flight_event_kind::run_ended, step);
    return step;
  }

  void stop() override { stopping_ = true; }

  std::shared_ptr<job_status_source> status_source() const override {
    return position_;
  }

  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    use_threads(options_.threads);
    for (std::uint32_t r = 0; r < replicas(); ++r) {
      const context_scope inside{context_of(r)};
      const flush_denormals flushing;
      fn(r);
    }
  }

protected:
  virtual void run_step(const step_function& fn, std::uint64_t step,
                        std::uint64_t generation) = 0;
  virtual context& context_of(std::uint32_t replica) = 0;

  void note(flight_event_kind kind, std::uint64_t step) const {
    record_event(options_.recorder, {.kind = kind,
                                     .generation = commit_.generation,
                                     .run = runs_,
                                     .step = shown(step)});
  }

  /// The request of the active run. @pre a run is active.
  const run_request& request() const { return *request_; }

  const replica_group_options options_;
  /// What the group does now.
  const std::shared_ptr<step_position> position_ =
    std::make_shared<step_position>();
  /// By replica: metrics of the current step.
  std::vector<step_metrics> reports_;

private:
  struct running_flag {
    explicit running_flag(bool& flag) : flag{flag} { flag = true; }
    ~running_flag() { flag = false; }
    bool& flag;
  };

  /// Returns the number that a step of the active run has for the user. If the
  /// user does not count it, that is its number in the group.
  std::uint64_t shown(std::uint64_t step) const {
    return user_step_of(request_->call, request_->first_step, step)
      .value_or(step);
  }

  const local_placement placement_;
  const run_request* request_ = nullptr; ///< Request of the last run.
  generation_counter generations_;
  commit_record commit_;
  std::uint64_t runs_ = 0; ///< Number of the last run.
  bool running_ = false;
  std::atomic<bool> stopping_ = false;
};

} // namespace troupe
