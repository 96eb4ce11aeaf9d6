#include "troupe/net/session/write_queue.hpp"

#include <algorithm>
#include <utility>

namespace troupe::net {

namespace {

/// A buffer that was written is freed if its capacity is larger than this
/// number of bytes.
constexpr std::size_t max_kept_capacity = std::size_t{256} * 1024;

} // namespace

void write_queue::push(const frame& queued) {
  if (queued.priority == priority::bulk) {
    bulk_.push_back(to_bytes(queued));
  } else {
    const auto header = header_of(queued);
    control_.insert(control_.end(), header.begin(), header.end());
    control_.insert(control_.end(), queued.payload.begin(),
                    queued.payload.end());
  }
  queued_bytes_[std::size_t(queued.priority)] +=
    header_size + queued.payload.size();
}

std::span<const std::byte> write_queue::front() {
  if (offset_ == writing_.size()) {
    if (writing_.capacity() > max_kept_capacity)
      writing_ = {};
    writing_.clear();
    offset_ = 0;
    writing_priority_ = control_.empty() ? priority::bulk : priority::control;
    if (!control_.empty()) {
      std::swap(writing_, control_);
    } else if (!bulk_.empty()) {
      writing_ = std::move(bulk_.front());
      bulk_.pop_front();
    }
  }
  return std::span{writing_}.subspan(offset_);
}

void write_queue::written(std::size_t count) {
  offset_ += count;
  queued_bytes_[std::size_t(writing_priority_)] -= count;
}

} // namespace troupe::net
