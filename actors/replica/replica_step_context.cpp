#include "troupe/actors/replica/replica_step_context.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

[[noreturn]] void throw_early_update(std::uint32_t bucket) {
  throw std::logic_error("the update began before the sum of bucket "
                         + std::to_string(bucket) + " was complete");
}

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

/// Waits until `ready()` holds. Meanwhile the replica reads its tensor queue
/// and reduces slices. If there is nothing to do, it polls for at most
/// `spin_timeout` and then parks the fiber.
template <class Ready>
void replica_step_context::wait(step_commit::activity activity,
                                std::uint32_t bucket, Ready ready) {
  state_.activity = activity;
  state_.awaited_bucket = bucket;
  const auto polls = state_.options.spin_timeout > std::chrono::microseconds{0};
  const auto wait_deadline = deadline();
  bool timer_set = false;
  caf::actor_clock::time_point spin_end{};
  for (;;) {
    state_.drain_queue();
    if (state_.is_superseded())
      throw superseded{};
    if (ready())
      break;
    if (state_.reduce_some(bucket))
      continue;
    if (polls) {
      const auto now = state_.self->clock().now();
      if (spin_end == caf::actor_clock::time_point{})
        spin_end = now + state_.options.spin_timeout;
      if (now < spin_end) {
        cpu_relax();
        continue;
      }
    }
    if (fail_if_expired(wait_deadline))
      throw superseded{};
    if (wait_deadline && !std::exchange(timer_set, true))
      wake_at(*wait_deadline);
    if (state_.transport->queue_of(state_.id).park())
      fiber::park();
    spin_end = {};
  }
  state_.activity = step_commit::activity::computing;
}

/// Parks the fiber so that the replica reads its mailbox. A `wake` message
/// makes the replica resume the fiber. If `lane_backend::blocks()` is true, the
/// replica sends itself a `wake` message before it parks the fiber. Otherwise
/// the backend calls `lane_backend_options::wake`, which sends the message.
void replica_step_context::yield_to_mailbox() {
  if (state_.backend->blocks() && !std::exchange(state_.wake_pending, true))
    state_.self->send(state_.self, atom::wake_v);
  fiber::park();
}

/// Calls `lane_backend::wait` until this function reports that `condition`
/// holds. Between two calls, the replica reads its mailbox.
void replica_step_context::wait_for_backend(
  step_commit::activity activity,
  const lane_backend::wait_condition& condition) {
  using wait_status = lane_backend::wait_status;
  state_.draining =
    condition.event == lane_backend::wait_condition::kind::drained;
  state_.activity = activity;
  state_.awaited_bucket = condition.bucket;
  const auto wait_deadline = deadline();
  bool timer_set = false;
  for (;;) {
    if (state_.is_superseded())
      throw superseded{};
    const auto status = state_.backend->wait(state_.id, condition, true);
    if (status == wait_status::ready)
      break;
    if (status == wait_status::failed) {
      state_.fail_for_peer(*state_.backend->failure());
      throw superseded{};
    }
    if (fail_if_expired(wait_deadline))
      throw superseded{};
    if (wait_deadline && !state_.backend->blocks()
        && !std::exchange(timer_set, true))
      wake_at(*wait_deadline);
    yield_to_mailbox();
  }
  state_.activity = step_commit::activity::computing;
}

void replica_step_context::contribute(std::uint32_t bucket,
                                      const tensor& contribution) {
  if (state_.backend)
    return state_.backend->contribute(state_.id, bucket, contribution, options);
  state_.send_contribution(bucket, contribution, options);
  state_.drain_queue();
}

void replica_step_context::contribute_in_place(std::uint32_t bucket,
                                               const tensor& contribution) {
  if (!state_.backend)
    return contribute(bucket, contribution);
  state_.backend->contribute(state_.id, bucket, contribution, options,
                             collective::output_placement::in_place);
}

tensor replica_step_context::sum(std::uint32_t bucket) {
  if (state_.backend) {
    state_.backend->sum_of(state_.id,
                           bucket); // throws if there was no contribution
    tensor total;
    while (!total) { // another replica may end the step after the wait
      wait_for_backend(step_commit::activity::all_reduce,
                       {lane_backend::wait_condition::kind::sum, bucket});
      total = state_.backend->sum_of(state_.id, bucket);
    }
    return total;
  }
  state_.local_collectives->sum_of(
    bucket); // throws if there was no contribution
  wait(step_commit::activity::all_reduce, bucket, [&] {
    return static_cast<bool>(state_.local_collectives->sum_of(bucket));
  });
  return state_.local_collectives->sum_of(bucket);
}

tensors replica_step_context::gather(std::uint32_t bucket,
                                     const tensor& contribution) {
  if (state_.backend) {
    state_.backend->gather(state_.id, bucket, contribution, options);
    tensors gathered;
    while (
      gathered.empty()) { // another replica may leave the step after the wait
      wait_for_backend(step_commit::activity::all_gather,
                       {lane_backend::wait_condition::kind::gather, bucket});
      gathered = state_.backend->gathered(state_.id, bucket);
    }
    return gathered;
  }
  state_.send_gather_contribution(bucket, contribution);
  const tensors* gathered = nullptr;
  wait(step_commit::activity::all_gather, bucket, [&] {
    gathered = state_.local_collectives->gathered(bucket);
    return gathered != nullptr;
  });
  return *gathered;
}

void replica_step_context::begin_update() {
  state_.drain_queue();
  if (state_.is_superseded())
    throw superseded{};
  if (state_.backend) {
    using wait_condition = lane_backend::wait_condition;
    const wait_condition complete{wait_condition::kind::complete, 0};
    if (state_.backend->wait(state_.id, complete, false)
          == lane_backend::wait_status::pending
        && state_.backend->is_current(state_.id))
      throw_early_update(state_.backend->first_incomplete(state_.id));
    wait_for_backend(step_commit::activity::all_reduce,
                     complete); // throws if the step is abandoned
    wait_until_drained(); // the peers must get their packets, as this step is
                          // not undone any more
  } else if (!state_.local_collectives->is_drained()) {
    throw_early_update(state_.local_collectives->first_incomplete());
  }
  state_.update_begun = true;
}

void replica_step_context::wait_until_drained() {
  if (state_.backend)
    return wait_for_backend(step_commit::activity::all_reduce,
                            {lane_backend::wait_condition::kind::drained,
                             state_.backend->first_incomplete(state_.id)});
  while (!state_.local_collectives->is_drained()) {
    const auto bucket = state_.local_collectives->first_incomplete();
    wait(step_commit::activity::all_reduce, bucket, [&] {
      return static_cast<bool>(state_.local_collectives->sum_of(bucket));
    });
  }
}

} // namespace troupe
