#include "troupe/training/loop/batch_feed.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

batch_feed::batch_feed(const data::dataset& batches,
                       const data::position& start, std::uint64_t first_step,
                       const replica_group& group, const batch_shares& shares)
  : batches_{batches, start, group.replica_placement(), shares},
    next_{first_step},
    oldest_{first_step},
    ring_(group.replica_placement().count() == 1
            ? 1
            : group.max_steps_ahead() + 1) {}

local_batch batch_feed::batch_of_step(std::uint64_t step) {
  // The lock is held while a batch is read, because the other replicas need the
  // same batch. A read takes at most the dataset's timeout.
  const std::lock_guard hold{lock_};
  while (next_ <= step) {
    auto& slot = ring_[next_ % ring_.size()];
    slot = {}; // Frees memory that the next batch reuses.
    auto read = batches_.next();
    if (!read)
      throw std::logic_error("step " + std::to_string(step)
                             + " has no batch: the epoch ended before it");
    slot = std::move(*read);
    ++next_;
  }
  if (step < oldest_ || step + ring_.size() < next_)
    throw std::logic_error("the batch of step " + std::to_string(step)
                           + " is not kept any more; the feed is at step "
                           + std::to_string(next_));
  return ring_[step % ring_.size()];
}

} // namespace troupe
