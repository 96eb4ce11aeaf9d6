#include "troupe/net/session/write_queue.hpp"

#include <algorithm>
#include <utility>

namespace troupe::net {

namespace {

/// Maximum capacity of an empty buffer; a larger one is freed.
constexpr std::size_t kept_bytes = std::size_t{256} * 1024;

} // namespace

void outbox::push(const frame& x) {
  if (x.priority == priority::bulk) {
    bulk_.push_back(to_bytes(x));
  } else {
    const auto header = header_of(x);
    control_.insert(control_.end(), header.begin(), header.end());
    control_.insert(control_.end(), x.payload.begin(), x.payload.end());
  }
  bytes_of_[std::size_t(x.priority)] += header_size + x.payload.size();
}

std::span<const std::byte> outbox::front() {
  if (at_ == now_.size()) {
    if (now_.capacity() > kept_bytes)
      now_ = {};
    now_.clear();
    at_ = 0;
    kind_ = control_.empty() ? priority::bulk : priority::control;
    if (!control_.empty()) {
      std::swap(now_, control_);
    } else if (!bulk_.empty()) {
      now_ = std::move(bulk_.front());
      bulk_.pop_front();
    }
  }
  return std::span{now_}.subspan(at_);
}

void outbox::written(std::size_t count) {
  at_ += count;
  bytes_of_[std::size_t(kind_)] -= count;
}

} // namespace troupe::net
