#include "troupe/actors/replica/replica_step_context.hpp"

#include <utility>

namespace troupe {

namespace {

/// Interval at which a replica that suspects a process checks its condition.
constexpr std::chrono::milliseconds suspicion_interval{5};

} // namespace

std::optional<caf::actor_clock::time_point>
replica_step_context::deadline() const {
  if (options.timeout == 0)
    return std::nullopt;
  return state_.self->clock().now()
         + std::chrono::milliseconds{options.timeout};
}

/// Fails the step if `limit`, the deadline of the current wait, has passed.
/// Nullopt: the wait has no deadline.
/// @returns true if the deadline has passed.
bool replica_step_context::fail_if_expired(
  std::optional<caf::actor_clock::time_point> limit) {
  if (!limit || state_.self->clock().now() < *limit)
    return false;
  state_.fail_for_timeout(std::chrono::milliseconds{options.timeout});
  return true;
}

void replica_step_context::wake_at(caf::actor_clock::time_point time) {
  state_.self->delayed_send(state_.self, time - state_.self->clock().now(),
                            atom::wake_v);
}

/// Parks the fiber, so that the replica reads its mailbox. If the backend sends
/// no `wake` message, the replica sends one to itself.
void replica_step_context::yield_to_mailbox() {
  if (!backend().wakes() && !std::exchange(state_.wake_pending, true))
    state_.self->send(state_.self, atom::wake_v);
  fiber::park();
}

void replica_step_context::check_superseded() {
  if (state_.is_superseded())
    throw superseded{};
}

void replica_step_context::wait_for(const wait_condition& condition) {
  state_.awaited = condition;
  const auto wait_deadline = deadline();
  bool timer_set = false;
  for (;;) {
    check_superseded();
    const auto status = backend().wait(condition, true);
    if (status == wait_status::ready)
      break;
    const auto failure =
      status == wait_status::failed ? backend().last_failure() : std::nullopt;
    if (failure && !failure->suspect) {
      state_.fail_with(*failure);
      throw superseded{};
    }
    if (failure)
      state_.report_suspicion();
    if (fail_if_expired(wait_deadline))
      throw superseded{};
    if (failure) {
      // The condition may still become true without the suspected process.
      if (!std::exchange(state_.suspicion_timer_set, true))
        state_.self->delayed_send(state_.self, suspicion_interval,
                                  atom::watchdog_v);
      fiber::park();
      continue;
    }
    if (wait_deadline && backend().wakes() && !std::exchange(timer_set, true))
      wake_at(*wait_deadline);
    yield_to_mailbox();
  }
  state_.awaited.reset();
}

} // namespace troupe
