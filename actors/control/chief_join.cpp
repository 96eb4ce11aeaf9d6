#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/protocol/type_ids.hpp"

#include <algorithm>
#include <utility>

// Joining a run: how long the processes wait for each other.

namespace troupe {

namespace {

/// Maximum join timeout that the chief accepts from a peer.
constexpr std::chrono::milliseconds max_join_timeout{365ull * 24 * 3600 * 1000};

} // namespace

std::chrono::milliseconds
chief_state::join_timeout_of(const muster::join& x) const {
  const std::uint64_t most = max_join_timeout.count();
  return std::max(options.patience,
                  std::chrono::milliseconds{std::min(x.timeout, most)});
}

void chief_state::join(const muster::join& x) {
  perform(gathering->on(x));
  const auto waits = gathering->waiting();
  if (waits && *waits != guarded) {
    guarded = *waits;
    join_timeout = join_timeout_of(x);
    join_deadline = self->clock().now() + join_timeout;
    if (!std::exchange(join_alarm, true))
      self->delayed_send(self, options.patience, atom::absent_v);
  }
}

/// Checks the join deadline. At most one timer is set at a time, whatever
/// timeouts peers ask for; this function sets the next one.
void chief_state::on_absent() {
  join_alarm = false;
  if (!gathering->waiting())
    return;
  const auto rest = join_deadline - self->clock().now();
  if (rest <= caf::timespan{0})
    return perform(
      gathering->on_late(std::to_string(join_timeout.count()) + " ms"));
  join_alarm = true;
  self->delayed_send(self, std::min<caf::timespan>(rest, options.patience),
                     atom::absent_v);
}

} // namespace troupe
