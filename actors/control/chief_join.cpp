#include "troupe/actors/control/chief.hpp"

#include <algorithm>
#include <utility>

// The part of the chief that lets processes join a run. It limits the time that
// they wait for each other.

namespace troupe {

namespace {

/// Maximum join timeout that the chief accepts from a peer: one year.
constexpr std::chrono::milliseconds max_join_timeout{365ull * 24 * 3600 * 1000};

} // namespace

std::chrono::milliseconds
chief_state::join_timeout_of(const run_barrier::join& request) const {
  const std::uint64_t max_ms = max_join_timeout.count();
  return std::max(options.step_timeout,
                  std::chrono::milliseconds{std::min(request.timeout, max_ms)});
}

void chief_state::join(const run_barrier::join& request) {
  perform(barrier->on(request));
  const auto waits = barrier->waiting();
  if (waits && *waits != joining_run) {
    joining_run = *waits;
    join_timeout = join_timeout_of(request);
    join_deadline = self->clock().now() + join_timeout;
    if (!std::exchange(join_timer_set, true))
      self->delayed_send(self, options.step_timeout, atom::missing_v);
  }
}

/// Checks the join deadline. If it has not passed, sets the next timer. Only
/// one timer is set at a time, whatever timeouts the peers request.
void chief_state::on_join_timer() {
  join_timer_set = false;
  if (!barrier->waiting())
    return;
  const auto rest = join_deadline - self->clock().now();
  if (rest <= caf::timespan{0})
    return perform(
      barrier->on_timeout(static_cast<std::uint64_t>(join_timeout.count())));
  join_timer_set = true;
  self->delayed_send(self, std::min<caf::timespan>(rest, options.step_timeout),
                     atom::missing_v);
}

} // namespace troupe
