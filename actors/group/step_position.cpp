#include "troupe/actors/group/step_position.hpp"

#include "troupe/actors/core/failure_text.hpp"

#include <utility>

namespace troupe {

step_position::run_guard::run_guard(step_position& position, std::uint64_t run,
                                    std::uint64_t generation,
                                    std::string operation)
  : position_{position} {
  {
    const std::lock_guard hold{position_.lock_};
    position_.operation_ = std::move(operation);
  }
  position_.generation_ = generation;
  position_.in_callback_ = false;
  position_.since_ = clock::now().time_since_epoch().count();
  position_.run_ = run;
}

step_position::run_guard::~run_guard() {
  position_.run_ = 0;
}

void step_position::begin_step(std::uint64_t step) {
  since_.store(clock::now().time_since_epoch().count(),
               std::memory_order_relaxed);
  step_.store(step, std::memory_order_relaxed);
  in_callback_.store(false, std::memory_order_relaxed);
}

void step_position::enter(std::uint32_t replica) {
  replica_.store(replica, std::memory_order_relaxed);
}

void step_position::begin_callback() {
  in_callback_.store(true, std::memory_order_relaxed);
}

job_status step_position::status(std::chrono::milliseconds) {
  job_status out;
  out.run = run_;
  out.generation = generation_;
  out.step = step_;
  if (out.run == 0)
    return out;
  {
    const std::lock_guard hold{lock_};
    out.operation = operation_;
  }
  const auto replica = replica_.load();
  const bool in_callback = in_callback_;
  out.since_commit_ms = static_cast<std::uint64_t>(
    std::chrono::duration_cast<std::chrono::milliseconds>(
      clock::now().time_since_epoch() - clock::duration{since_.load()})
      .count());
  failure_report report{
    .kind = failure_kind::step_pending,
    .code = ec::stalled,
    .replicas = {replica},
    .run = out.run,
    .step = out.step,
    .waits = {{false, replica, activity::computing, 0, {}}}};
  if (in_callback)
    report = {.kind = failure_kind::commits_not_taken,
              .code = ec::stalled,
              .processes = {0},
              .run = out.run,
              .step = out.step};
  report.operation = out.operation;
  const named_processes here{{"this process"}, placement{replica + 1}};
  out.stall_reason = describe(report, here);
  out.missing = missing_roles(report, here, out.since_commit_ms);
  return out;
}

} // namespace troupe
