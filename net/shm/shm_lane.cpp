#include "troupe/net/shm/shm_lane.hpp"

#include "troupe/net/base/memory_copy.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::net {

namespace {

/// Number of calls of `closed` after which the lane checks whether the peer is
/// alive. The check serves callers that poll and never wait.
constexpr unsigned calls_per_liveness_check = 256;

/// Minimum size of a zero-copy payload in bytes. To copy a smaller payload
/// costs less than to wait until the peer has released it.
constexpr std::size_t min_zero_copy_bytes = std::size_t{16} * 1024;

void begin_wait(std::atomic<std::uint32_t>& wanted) {
  wanted.store(wanted.load(std::memory_order_relaxed) | 1);
}

/// Returns `lane` if both segments have a queue for it.
std::size_t check_lane(const shm_context& context, std::size_t lane) {
  const auto lanes =
    std::min(context.own_segment.lanes(), context.peer_segment.lanes());
  if (lane >= lanes)
    throw std::out_of_range("lane " + std::to_string(lane) + " of "
                            + std::to_string(lanes));
  return lane;
}

void end_wait(std::atomic<std::uint32_t>& wanted) {
  const auto x = wanted.load(std::memory_order_relaxed);
  if (x % 2 == 1)
    wanted.store(x + 1, std::memory_order_relaxed);
}

} // namespace

shm_lane::shm_lane(std::shared_ptr<shm_context> context, std::size_t queue,
                   std::unique_ptr<stream> liveness_stream)
  : context_{std::move(context)},
    queue_{check_lane(*context_, queue)},
    liveness_stream_{std::move(liveness_stream)},
    own_queue_{context_->own_segment.header().queues[queue]},
    peer_queue_{context_->peer_segment.header().queues[queue]} {}

shm_lane::~shm_lane() {
  // This write precedes all later changes of payloads (see `is_intact`).
  own_queue_.ended.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  liveness_stream_->close();
}

void shm_lane::fail(const std::string& reason) {
  if (!closed_ || closed_->cause != close_reason::protocol_error)
    closed_ =
      closed_state{close_reason::protocol_error, "shared memory: " + reason};
  close_reported_ = false;
}

/// Reads how many packets the peer has popped from this process's queue.
/// @returns false, after it has failed the lane, if that number is invalid.
bool shm_lane::update_peer_popped() {
  // `arm` writes `space_wanted` before this read. The peer writes `popped`
  // before it reads `space_wanted`. So either this read sees that the peer has
  // popped a packet, or the peer sees that this process waits, and notifies it.
  const auto popped = peer_queue_.popped.load();
  if (popped - peer_popped_ > posted_ - peer_popped_) {
    fail("the peer popped packet " + std::to_string(popped) + " of "
         + std::to_string(posted_));
    return false;
  }
  peer_popped_ = popped;
  return true;
}

bool shm_lane::has_space() {
  const auto free = [&] {
    return posted_ - peer_popped_ < context_->own_segment.slots();
  };
  return free() || (update_peer_popped() && free());
}

/// True if the peer may still read payloads that were posted zero-copy.
bool shm_lane::has_unreleased() {
  const auto unreleased = [&] { return peer_popped_ < zero_copy_end_; };
  return unreleased() && (!update_peer_popped() || unreleased());
}

bool shm_lane::flush() {
  release_wanted_ = has_unreleased();
  return !release_wanted_;
}

bool shm_lane::has_arrived() {
  if (popped_ != peer_posted_)
    return true;
  // `arm` writes `packet_wanted` before this read. The peer writes `posted`
  // before it reads `packet_wanted`. So either this read sees that the peer has
  // posted a packet, or the peer sees that this process waits, and notifies it.
  const auto posted = peer_queue_.posted.load();
  if (posted - popped_ > context_->peer_segment.slots()) {
    fail("the peer posted packet " + std::to_string(posted) + " after "
         + std::to_string(popped_) + ", in "
         + std::to_string(context_->peer_segment.slots()) + " slots");
    return false;
  }
  peer_posted_ = posted;
  return popped_ != peer_posted_;
}

std::span<std::byte> shm_lane::reserve() {
  space_wanted_ = closed_ || !has_space();
  if (space_wanted_)
    return {};
  return context_->own_segment.slot(queue_, posted_).payload;
}

void shm_lane::post(const packet_header& header, std::size_t bytes) {
  if (bytes > max_packet_bytes
      || posted_ - peer_popped_ >= context_->own_segment.slots())
    throw std::logic_error("a packet of " + std::to_string(bytes)
                           + " bytes was posted without a reserved buffer");
  send(header, bytes, 0);
}

bool shm_lane::post_zero_copy(const packet_header& header,
                              std::span<const std::byte> bytes) {
  const auto& arena = context_->own_arena;
  const auto offset = arena && bytes.size() >= min_zero_copy_bytes
                          && bytes.size() <= max_packet_bytes
                        ? arena->offset_of(bytes)
                        : 0;
  if (offset == 0)
    return post(header, bytes);
  if (reserve().empty())
    return false;
  send(header, bytes.size(), offset);
  zero_copy_end_ = posted_;
  return true;
}

void shm_lane::send(const packet_header& header, std::size_t bytes,
                    std::uint64_t offset) {
  auto& slot = context_->own_segment.slot(queue_, posted_);
  slot.header = header;
  slot.offset.store(offset, std::memory_order_relaxed);
  slot.bytes.store(static_cast<std::uint32_t>(bytes),
                   std::memory_order_relaxed);
  // this write must precede the read of `packet_wanted` in `wake_peer`
  own_queue_.posted.store(++posted_);
  wake_peer(peer_queue_.packet_wanted, packet_notified_);
}

bool shm_lane::post(const packet_header& header,
                    std::span<const std::byte> bytes) {
  const auto buffer = reserve();
  if (buffer.empty())
    return false;
  if (bytes.size() <= buffer.size())
    copy_large(bytes, buffer);
  post(header, bytes.size());
  return true;
}

/// Notifies the peer if it waits and was not notified during this wait.
/// `notified` is the value of the peer's counter at the last notification.
void shm_lane::wake_peer(const std::atomic<std::uint32_t>& wanted,
                         std::uint32_t& notified) {
  const auto wait_count = wanted.load();
  if (wait_count % 2 == 1 && wait_count != notified) {
    notified = wait_count;
    notify(context_->peer_notifier.get());
  }
}

const packet_header* shm_lane::front() {
  if (is_front_lost_)
    return nullptr;
  if (has_front_)
    return &header_;
  if ((closed_ && closed_->cause == close_reason::protocol_error)
      || !has_arrived())
    return nullptr;
  const auto& slot = context_->peer_segment.slot(queue_, popped_);
  bytes_ = slot.bytes.load(std::memory_order_relaxed);
  if (bytes_ > max_packet_bytes) {
    fail("a packet of " + std::to_string(bytes_) + " bytes");
    return nullptr;
  }
  const auto offset = slot.offset.load(std::memory_order_relaxed);
  const auto& arena = context_->peer_arena;
  is_zero_copy_ = offset != 0;
  payload_ = offset == 0 ? std::span{slot.payload}.first(bytes_)
             : arena     ? arena->span_at(offset, bytes_)
                         : std::span<const std::byte>{};
  if (payload_.size() != bytes_) {
    fail("a packet of " + std::to_string(bytes_) + " bytes at offset "
         + std::to_string(offset) + " of an arena");
    return nullptr;
  }
  header_ = slot.header;
  has_front_ = true;
  return &header_;
}

std::span<const std::byte> shm_lane::view() {
  return payload_;
}

bool shm_lane::fetch(std::span<std::byte> into) {
  if (into.size() < bytes_)
    throw std::logic_error("a packet of " + std::to_string(bytes_)
                           + " bytes was fetched into "
                           + std::to_string(into.size()));
  copy_large(view(), into);
  return true;
}

bool shm_lane::is_intact() {
  if (!is_zero_copy_)
    return true;
  // The payload was read before this: if the peer had changed it already, the
  // peer's end would be seen here.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (peer_queue_.ended.load(std::memory_order_relaxed) == 0)
    return true;
  is_front_lost_ = true;
  if (!closed_) {
    closed_ = closed_state{close_reason::closed, "the peer has ended the lane"};
    close_reported_ = false;
  }
  return false;
}

void shm_lane::pop() {
  has_front_ = false;
  own_queue_.popped.store(++popped_); // before `wake_peer` reads `space_wanted`
  wake_peer(peer_queue_.space_wanted, space_notified_);
}

bool shm_lane::arm(std::vector<pollfd>& watched) {
  if (closed_)
    return close_reported_;
  if (!has_front_)
    begin_wait(own_queue_.packet_wanted);
  if (space_wanted_ || release_wanted_)
    begin_wait(own_queue_.space_wanted);
  context_->own_notifier->arm();
  const bool space_available =
    (space_wanted_ && has_space()) || (release_wanted_ && !has_unreleased());
  if (space_available)
    space_wanted_ = release_wanted_ = false; // reports an event once
  if (space_available || (!has_front_ && has_arrived()) || closed_)
    return false;
  armed_ = true;
  watched.push_back({context_->own_notifier->wait_descriptor(), POLLIN, 0});
  watched.push_back({liveness_stream_->descriptor(), POLLIN | POLLRDHUP, 0});
  return true;
}

void shm_lane::disarm() {
  end_wait(own_queue_.packet_wanted);
  end_wait(own_queue_.space_wanted);
  context_->own_notifier->clear();
  if (std::exchange(armed_, false))
    check_liveness();
}

void shm_lane::check_liveness() {
  if (closed_)
    return;
  std::byte unexpected[64];
  switch (liveness_stream_->read_some(unexpected).state) {
    case stream::status::ok:
      return fail("unexpected bytes arrived on its connection");
    case stream::status::closed:
    // the stream carries no data, so no data is lost
    case stream::status::failed:
      closed_ = closed_state{close_reason::closed,
                             "the peer has closed the connection"};
      return;
    case stream::status::wants_read:
    case stream::status::wants_write:
      return;
  }
}

const std::optional<lane::closed_state>& shm_lane::closed() {
  if (!closed_ && ++liveness_calls_ % calls_per_liveness_check == 0)
    check_liveness();
  close_reported_ = closed_.has_value();
  return closed_;
}

} // namespace troupe::net
