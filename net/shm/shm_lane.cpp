#include "troupe/net/shm/shm_lane.hpp"

#include "troupe/net/base/memory_copy.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::net {

namespace {

/// A caller that only polls checks every so many calls whether the peer is
/// alive.
constexpr unsigned calls_per_look = 256;

/// Minimum size of a zero-copy payload; a smaller one is copied faster than it
/// is released.
constexpr std::size_t least_lent = std::size_t{16} * 1024;

void begin_wait(std::atomic<std::uint32_t>& wanted) {
  wanted.store(wanted.load(std::memory_order_relaxed) | 1);
}

void end_wait(std::atomic<std::uint32_t>& wanted) {
  const auto x = wanted.load(std::memory_order_relaxed);
  if (x % 2 == 1)
    wanted.store(x + 1, std::memory_order_relaxed);
}

} // namespace

shm_lane::shm_lane(std::shared_ptr<shm_ground> ground, std::size_t queue,
                   std::unique_ptr<stream> beside)
  : ground_{std::move(ground)},
    queue_{queue},
    beside_{std::move(beside)},
    mine_{ground_->mine.header().queues.at(queue)},
    theirs_{ground_->theirs.header().queues.at(queue)} {}

shm_lane::~shm_lane() {
  beside_->close();
}

void shm_lane::break_off(const std::string& why) {
  if (!end_ || end_->how != ending::broken)
    end_ = end{ending::broken, "shared memory: " + why};
  told_ = false;
}

/// Updates the position up to which the peer has popped.
/// @returns false if the peer's position is invalid.
bool shm_lane::look_for_room() {
  // Read after `space_wanted` is written, so that no wake-up is lost.
  const auto now = theirs_.popped.load();
  if (now - let_go_ > posted_ - let_go_) {
    break_off("the peer popped packet " + std::to_string(now) + " of "
              + std::to_string(posted_));
    return false;
  }
  let_go_ = now;
  return true;
}

bool shm_lane::any_room() {
  const auto free = [&] { return posted_ - let_go_ < ground_->mine.slots(); };
  return free() || (look_for_room() && free());
}

/// True if the peer may still read zero-copy payloads.
bool shm_lane::any_lent() {
  const auto out = [&] { return let_go_ < lent_; };
  return out() && (!look_for_room() || out());
}

bool shm_lane::flush() {
  lent_missed_ = any_lent();
  return !lent_missed_;
}

bool shm_lane::any_arrived() {
  if (popped_ != arrived_)
    return true;
  // Read after `packet_wanted` is written, so that no wake-up is lost.
  const auto now = theirs_.posted.load();
  if (now - popped_ > ground_->theirs.slots()) {
    break_off("the peer posted packet " + std::to_string(now) + " after "
              + std::to_string(popped_) + ", in "
              + std::to_string(ground_->theirs.slots()) + " slots");
    return false;
  }
  arrived_ = now;
  return popped_ != arrived_;
}

std::span<std::byte> shm_lane::room() {
  room_missed_ = end_ || !any_room();
  if (room_missed_)
    return {};
  return ground_->mine.slot(queue_, posted_).payload;
}

void shm_lane::post(const parcel_head& head, std::size_t bytes) {
  if (bytes > most_parcel_bytes || posted_ - let_go_ >= ground_->mine.slots())
    throw std::logic_error("a packet of " + std::to_string(bytes)
                           + " bytes was posted without a reserved buffer");
  send(head, bytes, 0);
}

bool shm_lane::lend(const parcel_head& head, std::span<const std::byte> bytes) {
  const auto& arena = ground_->my_arena;
  const auto place =
    arena && bytes.size() >= least_lent && bytes.size() <= most_parcel_bytes
      ? arena->place_of(bytes)
      : 0;
  if (place == 0)
    return post(head, bytes);
  if (room().empty())
    return false;
  send(head, bytes.size(), place);
  lent_ = posted_;
  return true;
}

void shm_lane::send(const parcel_head& head, std::size_t bytes,
                    std::uint64_t place) {
  auto& slot = ground_->mine.slot(queue_, posted_);
  slot.head = head;
  slot.place.store(place, std::memory_order_relaxed);
  slot.bytes.store(static_cast<std::uint32_t>(bytes),
                   std::memory_order_relaxed);
  mine_.posted.store(++posted_); // written before `packet_wanted` is read
  wake(theirs_.parcel_wanted, parcel_rung_);
}

bool shm_lane::post(const parcel_head& head, std::span<const std::byte> bytes) {
  const auto to = room();
  if (to.empty())
    return false;
  if (bytes.size() <= to.size())
    copy_bytes(bytes, to);
  post(head, bytes.size());
  return true;
}

/// Notifies the peer once for each of its waits.
void shm_lane::wake(const std::atomic<std::uint32_t>& wanted,
                    std::uint32_t& rung) {
  const auto sleep = wanted.load();
  if (sleep % 2 == 1 && sleep != rung) {
    rung = sleep;
    ring(ground_->their_bell.get());
  }
}

const parcel_head* shm_lane::front() {
  if (has_front_)
    return &head_;
  if ((end_ && end_->how == ending::broken) || !any_arrived())
    return nullptr;
  const auto& slot = ground_->theirs.slot(queue_, popped_);
  bytes_ = slot.bytes.load(std::memory_order_relaxed);
  if (bytes_ > most_parcel_bytes) {
    break_off("a packet of " + std::to_string(bytes_) + " bytes");
    return nullptr;
  }
  const auto place = slot.place.load(std::memory_order_relaxed);
  const auto& arena = ground_->their_arena;
  payload_ = place == 0 ? std::span{slot.payload}.first(bytes_)
             : arena    ? arena->at(place, bytes_)
                        : std::span<const std::byte>{};
  if (payload_.size() != bytes_) {
    break_off("a packet of " + std::to_string(bytes_) + " bytes at offset "
              + std::to_string(place) + " of an arena");
    return nullptr;
  }
  head_ = slot.head;
  has_front_ = true;
  return &head_;
}

std::span<const std::byte> shm_lane::view() {
  return payload_;
}

bool shm_lane::fetch(std::span<std::byte> into) {
  if (into.size() < bytes_)
    throw std::logic_error("a packet of " + std::to_string(bytes_)
                           + " bytes was fetched into "
                           + std::to_string(into.size()));
  copy_bytes(view(), into);
  return true;
}

void shm_lane::pop() {
  has_front_ = false;
  mine_.popped.store(++popped_); // written before `space_wanted` is read
  wake(theirs_.room_wanted, room_rung_);
}

bool shm_lane::before_sleep(std::vector<pollfd>& watched) {
  if (end_)
    return told_;
  if (!has_front_)
    begin_wait(mine_.parcel_wanted);
  if (room_missed_ || lent_missed_)
    begin_wait(mine_.room_wanted);
  ground_->my_bell->listen();
  const bool room_came =
    (room_missed_ && any_room()) || (lent_missed_ && !any_lent());
  if (room_came)
    room_missed_ = lent_missed_ = false; // reported once
  if (room_came || (!has_front_ && any_arrived()) || end_)
    return false;
  asleep_ = true;
  watched.push_back({ground_->my_bell->listener(), POLLIN, 0});
  watched.push_back({beside_->descriptor(), POLLIN | POLLRDHUP, 0});
  return true;
}

void shm_lane::after_sleep() {
  end_wait(mine_.parcel_wanted);
  end_wait(mine_.room_wanted);
  ground_->my_bell->silence();
  if (std::exchange(asleep_, false))
    look_beside();
}

void shm_lane::look_beside() {
  if (end_)
    return;
  std::byte none[64];
  switch (beside_->read_some(none).how) {
    case stream::status::ok:
      return break_off("unexpected bytes arrived on its connection");
    case stream::status::closed:
    case stream::status::failed: // it carries no data of the job
      end_ = end{ending::dead, "the peer has closed the connection"};
      return;
    case stream::status::wants_read:
    case stream::status::wants_write:
      return;
  }
}

const std::optional<lane::end>& shm_lane::ended() {
  if (!end_ && ++looks_ % calls_per_look == 0)
    look_beside();
  told_ = end_.has_value();
  return end_;
}

} // namespace troupe::net
