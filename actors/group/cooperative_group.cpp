#include "troupe/actors/group/cooperative_group.hpp"

#include "troupe/actors/collectives/backend_step_context.hpp"
#include "troupe/actors/collectives/sequential_backend.hpp"
#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/group/sequential_group.hpp"

#include <algorithm>
#include <deque>

namespace troupe {

namespace {

/// Step context of a replica that runs on a fiber in turn with others.
class cooperative_context final : public backend_step_context {
public:
  using backend_step_context::backend_step_context;

  /// The condition that the replica waited for last.
  wait_condition awaited;

private:
  void wait_for(const wait_condition& condition) override {
    awaited = condition;
    while (backend().wait(condition, false) == wait_status::pending)
      fiber::park();
  }
};

class cooperative_group final : public sequential_group {
public:
  explicit cooperative_group(const replica_group_options& options)
    : sequential_group{options},
      collectives_{std::make_shared<sequential_collectives>(options.replicas)} {
    for (std::uint32_t r = 0; r < options.replicas; ++r)
      prepare(replicas_.emplace_back(collectives_, r).op_context, options, r,
              0);
  }

protected:
  void run_step(const step_function& fn, std::uint64_t step,
                std::uint64_t generation) override {
    step_ = step;
    collectives_->begin_step(generation, step);
    const abort_on_exit ends{*this};
    for (std::uint32_t r = 0; r < replicas(); ++r) {
      auto& replica = replicas_[r];
      prepare(replica.op_context, options_, r, step);
      prepare(replica.step, options_, r, step, generation);
      replica.step_fiber.start([&fn, &replica] { fn(replica.step); });
    }
    while (resume_all()) {
    }
    if (const auto bucket = collectives_->first_incomplete_bucket())
      throw_incomplete(*bucket);
    for (std::uint32_t r = 0; r < replicas(); ++r)
      reports_[r] = replicas_[r].step.report;
  }

  context& context_of(std::uint32_t replica) override {
    return replicas_[replica].op_context;
  }

private:
  struct local_replica {
    local_replica(const std::shared_ptr<sequential_collectives>& collectives,
                  std::uint32_t id)
      : step{std::make_shared<sequential_backend>(collectives, id)} {}

    context op_context;
    cooperative_context step;
    fiber step_fiber{&op_context};
  };

  /// Ends the step in its destructor, which also runs if the step throws. The
  /// destructor makes all replicas leave the step function and releases the
  /// contributions.
  struct abort_on_exit {
    explicit abort_on_exit(cooperative_group& group) : group{group} {}
    ~abort_on_exit() {
      for (auto& replica : group.replicas_)
        replica.step_fiber.abort();
      group.collectives_->end_step();
    }
    cooperative_group& group;
  };

  /// Resumes each unfinished replica once. The replica runs until it parks or
  /// finishes the step.
  /// @returns true if a replica has not finished the step.
  /// @errors throws `job_error` if no replica can continue.
  bool resume_all() {
    const auto progress_before = collectives_->progress();
    bool unfinished = false, finished_one = false;
    for (auto& replica : replicas_) {
      if (replica.step_fiber.done())
        continue;
      position_->enter(replica.step.replica);
      replica.step_fiber.resume();
      if (replica.step_fiber.error())
        std::rethrow_exception(replica.step_fiber.error());
      finished_one |= replica.step_fiber.done();
      unfinished |= !replica.step_fiber.done();
    }
    if (unfinished && !finished_one
        && progress_before == collectives_->progress())
      throw_no_progress();
    return unfinished;
  }

  [[noreturn]] void throw_stalled(role_wait wait) {
    failure_report report{.kind = failure_kind::stalled,
                          .code = ec::stalled,
                          .step = step_,
                          .waits = {std::move(wait)}};
    use_user_steps(report, request().call, request().first_step);
    throw to_job_error(std::move(report),
                       {{"this process"}, placement{replicas()}});
  }

  /// Throws the error of a step in which no replica can continue.
  [[noreturn]] void throw_no_progress() {
    const auto& waiting =
      std::ranges::find_if(replicas_, [](const local_replica& x) {
        return !x.step_fiber.done();
      })->step;
    const auto bucket = waiting.awaited.bucket;
    const bool gathers =
      waiting.awaited.event == collective_backend::wait_condition::kind::gather;
    throw_stalled({false, waiting.replica,
                   collective_backend::activity_of(waiting.awaited), bucket,
                   gathers ? collectives_->missing_in_gather(bucket)
                           : collectives_->missing_in_sum(bucket)});
  }

  /// Throws the error of a step in which all replicas have left the step
  /// function, but not all have contributed to a sum. The first contributor
  /// waits for the sum.
  [[noreturn]] void throw_incomplete(std::uint32_t bucket) {
    const auto missing = collectives_->missing_in_sum(bucket);
    std::uint32_t waiting = 0;
    while (std::ranges::count(missing, waiting) > 0)
      ++waiting;
    throw_stalled({false, waiting, activity::all_reduce, bucket, missing});
  }

  std::uint64_t step_ = 0; ///< Number of the current step.
  std::shared_ptr<sequential_collectives> collectives_;
  /// A deque does not move its elements when it grows. The context of a replica
  /// must not move, because the replica's fiber holds its address.
  std::deque<local_replica> replicas_;
};

} // namespace

std::unique_ptr<replica_group>
make_cooperative_group(const replica_group_options& options) {
  return std::make_unique<cooperative_group>(options);
}

} // namespace troupe
