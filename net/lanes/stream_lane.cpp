#include "troupe/net/lanes/stream_lane.hpp"

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/crc32c.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe::net {

namespace layout = parcel_layout;

namespace {

/// Offset of the payload in the buffer: aligned, with space for the prefix
/// before it.
constexpr std::size_t room_begin = 128;
constexpr std::size_t read_ahead = 16 * 1024;

using prefix = std::array<std::byte, layout::size>;

prefix prefix_of(const parcel_head& head, std::span<const std::byte> payload,
                 const stream& over) {
  if (payload.size() > most_parcel_bytes)
    throw std::logic_error("a packet of " + std::to_string(payload.size())
                           + " bytes");
  prefix x{};
  store_le(x.data() + layout::length,
           static_cast<std::uint32_t>(payload.size()));
  std::memcpy(x.data() + layout::head, head.data(), head.size());
  const auto head_sum = crc32c(std::span{x}.first(layout::head_sum));
  store_le(x.data() + layout::head_sum, head_sum);
  store_le(x.data() + layout::sum,
           over.is_authentic() ? head_sum : crc32c(payload, head_sum));
  return x;
}

/// Poll events to wait for before bytes can move again.
short news_after(stream::status how) {
  return how == stream::status::wants_write ? POLLOUT : POLLIN;
}

} // namespace

struct stream_lane::out_buffer {
  alignas(64) std::byte bytes[room_begin + most_parcel_bytes];
};
struct stream_lane::in_buffer {
  std::byte bytes[read_ahead];
};

stream_lane::stream_lane(std::unique_ptr<stream> over)
  : over_{std::move(over)}, out_{new out_buffer}, in_{new in_buffer} {}

stream_lane::~stream_lane() {
  over_->close();
}

void stream_lane::stop(ending how, const std::string& why) {
  if (end_ && (end_->how == ending::broken || how != ending::broken))
    return;
  end_ = end{how, why};
  told_ = false;
}

// -- sending ------------------------------------------------------------------

bool stream_lane::can_post() {
  room_missed_ = !flush() || end_;
  return !room_missed_;
}

std::span<std::byte> stream_lane::room() {
  if (!can_post())
    return {};
  return std::span{out_->bytes}.subspan(room_begin);
}

void stream_lane::post(const parcel_head& head, std::size_t bytes) {
  if (unsent_ != unsent_end_)
    throw std::logic_error("a packet was posted without a reserved buffer");
  const std::span payload{out_->bytes + room_begin,
                          std::min(bytes, most_parcel_bytes + 1)};
  const auto before = prefix_of(head, payload, *over_);
  unsent_ = room_begin - before.size();
  unsent_end_ = room_begin + bytes;
  std::memcpy(out_->bytes + unsent_, before.data(), before.size());
  flush();
}

bool stream_lane::post(const parcel_head& head,
                       std::span<const std::byte> bytes) {
  if (!can_post())
    return false;
  const auto before = prefix_of(head, bytes, *over_);
  std::span<const std::byte> first{before}, second{bytes};
  while (!first.empty() || !second.empty()) {
    const auto moved = first.empty() ? over_->write_some(second)
                                     : over_->write_some(first, second);
    if (moved.how != stream::status::ok) {
      write_stopped(moved.how);
      break;
    }
    const auto of_first = std::min(moved.bytes, first.size());
    first = first.subspan(of_first);
    second = second.subspan(moved.bytes - of_first);
  }
  unsent_ = room_begin - first.size(); // so that a full payload fits behind it
  std::copy(first.begin(), first.end(), out_->bytes + unsent_);
  std::copy(second.begin(), second.end(), out_->bytes + room_begin);
  unsent_end_ = room_begin + second.size();
  return true;
}

bool stream_lane::flush() {
  // After the stream was full, wait until the kernel reports enough free space:
  // a packet that is sent as a whole is not copied here.
  pollfd x{over_->descriptor(), POLLOUT, 0};
  if (full_ && ::poll(&x, 1, 0) == 0)
    return false;
  full_ = false;
  while (unsent_ != unsent_end_ && !write_over_) {
    const auto moved =
      over_->write_some({out_->bytes + unsent_, unsent_end_ - unsent_});
    if (moved.how != stream::status::ok) {
      write_stopped(moved.how);
      return false;
    }
    unsent_ += moved.bytes;
  }
  return unsent_ == unsent_end_;
}

void stream_lane::write_stopped(stream::status how) {
  write_news_ = news_after(how);
  full_ = how == stream::status::wants_write;
  if (full_ || how == stream::status::wants_read)
    return;
  write_over_ = true;
  stopped(how);
}

void stream_lane::stopped(stream::status how) {
  if (how == stream::status::closed)
    stop(ending::dead, "the peer has closed the connection");
  else
    stop(ending::broken, over_->problem());
}

// -- receiving ----------------------------------------------------------------

/// @returns the number of bytes read. Zero: none now.
std::size_t stream_lane::read(std::span<std::byte> to) {
  if (read_over_)
    return 0;
  const auto moved = over_->read_some(to);
  if (moved.how == stream::status::ok)
    return moved.bytes;
  read_news_ = news_after(moved.how);
  if (moved.how == stream::status::closed
      || moved.how == stream::status::failed) {
    read_over_ = true;
    stopped(moved.how);
  }
  return 0;
}

const parcel_head* stream_lane::front() {
  if (has_front_)
    return &head_;
  while (ahead_end_ - ahead_ < layout::size) {
    std::copy(in_->bytes + ahead_, in_->bytes + ahead_end_, in_->bytes);
    ahead_end_ -= std::exchange(ahead_, 0);
    const auto came = read(std::span{in_->bytes}.subspan(ahead_end_));
    if (came == 0)
      return nullptr;
    ahead_end_ += came;
  }
  return parse_front() ? &head_ : nullptr;
}

bool stream_lane::parse_front() {
  const auto* from = in_->bytes + ahead_;
  const auto head_sum = crc32c({from, layout::head_sum});
  length_ = load_le<std::uint32_t>(from + layout::length);
  const auto flags = load_le<std::uint32_t>(from + layout::flags);
  std::string wrong;
  if (load_le<std::uint32_t>(from + layout::head_sum) != head_sum)
    wrong = "the checksum of a packet's header is wrong";
  else if (flags != 0)
    wrong = "a packet has unknown flags";
  else if (length_ > most_parcel_bytes)
    wrong = "a packet of " + std::to_string(length_) + " bytes";
  if (!wrong.empty()) {
    break_off(wrong);
    return false;
  }
  std::memcpy(head_.data(), from + layout::head, head_.size());
  sum_ = head_sum;
  wanted_ = load_le<std::uint32_t>(from + layout::sum);
  ahead_ += layout::size;
  fetched_ = 0;
  fetching_ = false;
  has_front_ = true;
  return true;
}

/// Ends the lane: the start of the next packet is unknown.
void stream_lane::break_off(const std::string& why) {
  read_over_ = write_over_ = true;
  has_front_ = false;
  ahead_ = ahead_end_ = 0;
  stop(ending::broken, why);
}

bool stream_lane::fetch(std::span<std::byte> into) {
  if (!has_front_) // after a protocol error
    return false;
  if (into.size() < length_)
    throw std::logic_error("a packet of " + std::to_string(length_)
                           + " bytes was fetched into "
                           + std::to_string(into.size()));
  if (complete_)
    return true;
  for (auto left = into.first(length_).subspan(fetched_); !left.empty();) {
    const auto came = next_bytes(left);
    fetching_ = came == 0;
    if (fetching_)
      return false;
    if (!over_->is_authentic())
      sum_ = crc32c(left.first(came), sum_);
    fetched_ += came;
    left = left.subspan(came);
  }
  complete_ = sum_ == wanted_;
  if (!complete_)
    break_off("the checksum of a packet is wrong");
  return complete_;
}

/// Takes bytes that were read ahead, then reads from the stream. The last few
/// bytes are read together with what follows them, in one call.
std::size_t stream_lane::next_bytes(std::span<std::byte> to) {
  if (ahead_ == ahead_end_) {
    if (to.size() >= read_ahead)
      return read(to);
    ahead_ = 0;
    ahead_end_ = read(in_->bytes);
  }
  const auto kept = std::min(ahead_end_ - ahead_, to.size());
  std::memcpy(to.data(), in_->bytes + ahead_, kept);
  ahead_ += kept;
  return kept;
}

void stream_lane::pop() {
  has_front_ = complete_ = false;
}

// -- waiting ------------------------------------------------------------------

bool stream_lane::before_sleep(std::vector<pollfd>& watched) {
  if (end_)
    return told_;
  if (flush() && std::exchange(room_missed_, false)) // reported once
    return false;
  const bool reads = !has_front_ || fetching_;
  const bool next_came = !has_front_ && ahead_end_ - ahead_ >= layout::size;
  if (end_ || next_came || (reads && over_->has_buffered()))
    return false;
  short events = POLLRDHUP;
  if (unsent_ != unsent_end_)
    events |= write_news_;
  if (reads)
    events |= read_news_;
  watched.push_back({over_->descriptor(), events, 0});
  asleep_ = true;
  return true;
}

void stream_lane::after_sleep() {
  if (!std::exchange(asleep_, false) || end_)
    return;
  // a packet that is not popped hides the end of the stream behind it
  pollfd x{over_->descriptor(), POLLRDHUP, 0};
  if (::poll(&x, 1, 0) > 0)
    stopped(stream::status::closed);
}

const std::optional<lane::end>& stream_lane::ended() {
  told_ = end_.has_value();
  return end_;
}

} // namespace troupe::net
