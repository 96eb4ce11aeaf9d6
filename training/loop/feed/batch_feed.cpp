#include "troupe/training/loop/feed/batch_feed.hpp"

#include "troupe/tensors/base/device_error.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// Number of batches that are kept.
std::size_t ring_size(const replica_group& group, bool has_device) {
  const std::size_t kept =
    group.replica_placement().count() == 1 ? 1 : group.max_steps_ahead() + 1;
  return kept + (has_device ? 1 : 0);
}

bool is_on_device(const std::vector<device>& devices) {
  return !devices.empty() && devices.front().kind != device_kind::cpu;
}

} // namespace

batch_feed::batch_feed(const data::dataset& batches,
                       const data::position& start, std::uint64_t first_step,
                       const replica_group& group, const batch_shares& shares,
                       const std::vector<device>& devices)
  : batches_{batches, start, group.replica_placement(), shares},
    next_{first_step},
    oldest_{first_step},
    ring_(ring_size(group, is_on_device(devices))) {
  if (!is_on_device(devices))
    return;
  const auto make_copies = [&] {
    return std::make_unique<batch_copies>(devices, group.replica_placement());
  };
  for (auto& one : ring_)
    one.copies = make_copies();
  next_copies_ = make_copies();
  if (batches.prefetched().value_or(0) > 0)
    reader_ = std::make_unique<batch_reader>(
      std::move(batches_), devices.front().kind, batches.element_timeout());
  copies_ahead_ = reader_ != nullptr;
}

void batch_feed::discard(slot& one) {
  if (one.copies) {
    one.copies->synchronize(); // it reads the rows
    one.copies->release();
  }
  one.rows = {}; // Frees memory that the next batch reuses.
}

void batch_feed::discard_oldest() {
  auto kept = ring_.size() - 1;
  discard(slot_of(next_));
  if (next_copies_ && !copies_ahead_) {
    discard(slot_of(next_ + 1)); // the oldest batch that is left
    --kept;
  }
  if (next_ > kept)
    oldest_ = std::max(oldest_, next_ - kept);
}

bool batch_feed::read() {
  discard_oldest();
  auto& slot = slot_of(next_);
  auto read = not_copied_ ? std::exchange(not_copied_, std::nullopt)
              : reader_   ? reader_->next()
                          : batches_.next();
  if (!read)
    return false;
  slot.rows = std::move(*read);
  if (slot.copies) {
    std::swap(slot.copies, next_copies_);
    try {
      slot.copies->start(slot.rows);
    } catch (...) {
      not_copied_ = slot.rows;
      discard(slot);
      throw;
    }
  }
  ++next_;
  return true;
}

step_batch batch_feed::batch_of_step(std::uint64_t step, std::size_t index) {
  // The lock is held while a batch is read, because the other replicas need the
  // same batch. A read takes at most the dataset's timeout.
  const std::lock_guard hold{lock_};
  while (next_ <= step)
    if (!read())
      throw std::logic_error("step " + std::to_string(step)
                             + " has no batch: the epoch ended before it");
  if (step < oldest_)
    throw std::logic_error("the batch of step " + std::to_string(step)
                           + " is not kept any more; the feed is at step "
                           + std::to_string(next_));
  auto& slot = slot_of(step);
  if (!slot.copies)
    return {slot.rows, slot.rows};
  step_batch out{slot.rows, slot.copies->rows_of(index)};
  if (copies_ahead_ && next_ == step + 1) {
    discard_oldest(); // so that its memory can be reserved
    reserve(slot.rows);
  }
  return out;
}

void batch_feed::reserve(const local_batch& like) {
  try {
    next_copies_->reserve(like);
  } catch (const device_lost&) {
    throw;
  } catch (const device_error&) { // too little memory
    copy_no_more_ahead();
  }
}

/// Each attempt would cost a wait for the device.
void batch_feed::copy_no_more_ahead() {
  copies_ahead_ = false;
  next_copies_->release();
}

bool batch_feed::copy_ahead(std::uint64_t step) {
  const std::lock_guard hold{lock_};
  if (copies_ahead_ && next_ == step + 1 && reader_->is_ready())
    try {
      read();
    } catch (const device_lost&) {
      throw;
    } catch (const device_error&) { // too little memory for this batch
      copy_no_more_ahead();
    }
  return reader_ && next_ > step + 1;
}

} // namespace troupe
