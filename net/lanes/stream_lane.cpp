#include "troupe/net/lanes/stream_lane.hpp"

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/crc32c.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe::net {

namespace layout = packet_layout;

namespace {

/// Offset of the payload in the output buffer. It is a multiple of 64 that
/// leaves space for the packet's prefix, the 80 bytes of `packet_layout`.
constexpr std::size_t payload_offset = 128;
constexpr std::size_t read_ahead_bytes = 16 * 1024;

using packet_prefix = std::array<std::byte, layout::size>;

packet_prefix prefix_of(const packet_header& header,
                        std::span<const std::byte> payload,
                        const stream& carrier) {
  if (payload.size() > max_packet_bytes)
    throw std::logic_error("a packet of " + std::to_string(payload.size())
                           + " bytes");
  packet_prefix result{};
  store_le(result.data() + layout::length,
           static_cast<std::uint32_t>(payload.size()));
  std::memcpy(result.data() + layout::header, header.data(), header.size());
  const auto header_checksum =
    crc32c(std::span{result}.first(layout::header_checksum));
  store_le(result.data() + layout::header_checksum, header_checksum);
  store_le(result.data() + layout::checksum,
           carrier.is_authentic() ? header_checksum
                                  : crc32c(payload, header_checksum));
  return result;
}

/// Returns the `poll` event to wait for after a read or write that transferred
/// nothing.
short events_after(stream::status result) {
  return result == stream::status::wants_write ? POLLOUT : POLLIN;
}

} // namespace

struct stream_lane::out_buffer {
  alignas(64) std::byte bytes[payload_offset + max_packet_bytes];
};
struct stream_lane::in_buffer {
  std::byte bytes[read_ahead_bytes];
};

stream_lane::stream_lane(std::unique_ptr<stream> connected_stream)
  : stream_{std::move(connected_stream)},
    output_{new out_buffer},
    input_{new in_buffer} {}

stream_lane::~stream_lane() {
  stream_->close();
}

void stream_lane::set_closed(close_reason cause, const std::string& reason) {
  if (closed_
      && (closed_->cause != close_reason::closed
          || cause == close_reason::closed))
    return;
  closed_ = closed_state{cause, reason};
  close_reported_ = false;
}

// -- sending ------------------------------------------------------------------

bool stream_lane::can_post() {
  space_wanted_ = !flush() || closed_;
  return !space_wanted_;
}

std::span<std::byte> stream_lane::reserve() {
  if (!can_post())
    return {};
  return std::span{output_->bytes}.subspan(payload_offset);
}

void stream_lane::post(const packet_header& header, std::size_t bytes) {
  if (unsent_ != unsent_end_)
    throw std::logic_error("a packet was posted without a reserved buffer");
  const std::span payload{output_->bytes + payload_offset,
                          std::min(bytes, max_packet_bytes + 1)};
  const auto prefix = prefix_of(header, payload, *stream_);
  unsent_ = payload_offset - prefix.size();
  unsent_end_ = payload_offset + bytes;
  std::memcpy(output_->bytes + unsent_, prefix.data(), prefix.size());
  flush();
}

bool stream_lane::post(const packet_header& header,
                       std::span<const std::byte> bytes) {
  if (!can_post())
    return false;
  const auto prefix = prefix_of(header, bytes, *stream_);
  std::span<const std::byte> first{prefix}, second{bytes};
  while (!first.empty() || !second.empty()) {
    const auto written = first.empty() ? stream_->write_some(second)
                                       : stream_->write_some(first, second);
    if (written.state != stream::status::ok) {
      on_write_stopped(written.state);
      break;
    }
    const auto of_first = std::min(written.bytes, first.size());
    first = first.subspan(of_first);
    second = second.subspan(written.bytes - of_first);
  }
  // Store the unsent rest of the prefix directly before `payload_offset`, where
  // the rest of the payload begins.
  unsent_ = payload_offset - first.size();
  std::copy(first.begin(), first.end(), output_->bytes + unsent_);
  std::copy(second.begin(), second.end(), output_->bytes + payload_offset);
  unsent_end_ = payload_offset + second.size();
  return true;
}

bool stream_lane::flush() {
  // After a write that filled the send buffer, the next write waits until
  // `poll` reports the socket as writable. The kernel does so only when much
  // space is free. So the next packet often fits as a whole, and is not copied
  // to the output buffer.
  pollfd x{stream_->descriptor(), POLLOUT, 0};
  if (stream_full_ && ::poll(&x, 1, 0) == 0)
    return false;
  stream_full_ = false;
  while (unsent_ != unsent_end_ && !write_closed_) {
    const auto moved =
      stream_->write_some({output_->bytes + unsent_, unsent_end_ - unsent_});
    if (moved.state != stream::status::ok) {
      on_write_stopped(moved.state);
      return false;
    }
    unsent_ += moved.bytes;
  }
  return unsent_ == unsent_end_;
}

void stream_lane::on_write_stopped(stream::status write_status) {
  write_events_ = events_after(write_status);
  stream_full_ = write_status == stream::status::wants_write;
  if (stream_full_ || write_status == stream::status::wants_read)
    return;
  write_closed_ = true;
  on_stream_closed(write_status);
}

void stream_lane::on_stream_closed(stream::status stream_status) {
  if (stream_status == stream::status::closed)
    set_closed(close_reason::closed, "the peer has closed the connection");
  else
    set_closed(close_reason::corrupted, stream_->problem());
}

// -- receiving ----------------------------------------------------------------

/// Returns the number of bytes read. Zero: no bytes can be read now.
std::size_t stream_lane::read(std::span<std::byte> destination) {
  if (read_closed_)
    return 0;
  const auto moved = stream_->read_some(destination);
  if (moved.state == stream::status::ok)
    return moved.bytes;
  read_events_ = events_after(moved.state);
  if (moved.state == stream::status::closed
      || moved.state == stream::status::failed) {
    read_closed_ = true;
    on_stream_closed(moved.state);
  }
  return 0;
}

const packet_header* stream_lane::front() {
  if (has_front_)
    return &header_;
  while (read_end_ - read_begin_ < layout::size) {
    std::copy(input_->bytes + read_begin_, input_->bytes + read_end_,
              input_->bytes);
    read_end_ -= std::exchange(read_begin_, 0);
    const auto count = read(std::span{input_->bytes}.subspan(read_end_));
    if (count == 0)
      return nullptr;
    read_end_ += count;
  }
  return parse_front() ? &header_ : nullptr;
}

bool stream_lane::parse_front() {
  const auto* prefix = input_->bytes + read_begin_;
  const auto header_checksum = crc32c({prefix, layout::header_checksum});
  length_ = load_le<std::uint32_t>(prefix + layout::length);
  const auto flags = load_le<std::uint32_t>(prefix + layout::flags);
  std::string problem;
  if (load_le<std::uint32_t>(prefix + layout::header_checksum)
      != header_checksum) {
    fail(close_reason::corrupted, "the checksum of a packet's header is wrong");
    return false;
  }
  if (flags != 0)
    problem = "a packet has unknown flags";
  else if (length_ > max_packet_bytes)
    problem = "a packet of " + std::to_string(length_) + " bytes";
  if (!problem.empty()) {
    fail(close_reason::protocol_error, problem);
    return false;
  }
  std::memcpy(header_.data(), prefix + layout::header, header_.size());
  checksum_ = header_checksum;
  expected_checksum_ = load_le<std::uint32_t>(prefix + layout::checksum);
  read_begin_ += layout::size;
  fetched_ = 0;
  fetch_incomplete_ = false;
  has_front_ = true;
  return true;
}

/// Ends the lane, because the start of the next packet is unknown.
void stream_lane::fail(close_reason cause, const std::string& reason) {
  read_closed_ = write_closed_ = true;
  has_front_ = false;
  read_begin_ = read_end_ = 0;
  set_closed(cause, reason);
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
  for (auto remaining = into.first(length_).subspan(fetched_);
       !remaining.empty();) {
    const auto count = next_bytes(remaining);
    fetch_incomplete_ = count == 0;
    if (fetch_incomplete_)
      return false;
    if (!stream_->is_authentic())
      checksum_ = crc32c(remaining.first(count), checksum_);
    fetched_ += count;
    remaining = remaining.subspan(count);
  }
  complete_ = checksum_ == expected_checksum_;
  if (!complete_)
    fail(close_reason::corrupted, "the checksum of a packet is wrong");
  return complete_;
}

/// Copies bytes that were read ahead. If there are none, it reads from the
/// stream. A small remainder of a payload is read together with the bytes that
/// follow it, in one system call.
std::size_t stream_lane::next_bytes(std::span<std::byte> destination) {
  if (read_begin_ == read_end_) {
    if (destination.size() >= read_ahead_bytes)
      return read(destination);
    read_begin_ = 0;
    read_end_ = read(input_->bytes);
  }
  const auto count = std::min(read_end_ - read_begin_, destination.size());
  std::memcpy(destination.data(), input_->bytes + read_begin_, count);
  read_begin_ += count;
  return count;
}

void stream_lane::pop() {
  has_front_ = complete_ = false;
}

// -- waiting ------------------------------------------------------------------

bool stream_lane::arm(std::vector<pollfd>& watched) {
  if (closed_)
    return close_reported_;
  if (flush() && std::exchange(space_wanted_, false)) // reports space once
    return false;
  const bool reads = !has_front_ || fetch_incomplete_;
  const bool next_arrived =
    !has_front_ && read_end_ - read_begin_ >= layout::size;
  if (closed_ || next_arrived || (reads && stream_->has_buffered()))
    return false;
  short events = POLLRDHUP;
  if (unsent_ != unsent_end_)
    events |= write_events_;
  if (reads)
    events |= read_events_;
  watched.push_back({stream_->descriptor(), events, 0});
  armed_ = true;
  return true;
}

void stream_lane::disarm() {
  if (!std::exchange(armed_, false) || closed_)
    return;
  // Until the front packet is popped, the lane does not read from the stream.
  // Therefore only `poll` detects that the peer has closed the stream.
  pollfd x{stream_->descriptor(), POLLRDHUP, 0};
  if (::poll(&x, 1, 0) > 0)
    on_stream_closed(stream::status::closed);
}

const std::optional<lane::closed_state>& stream_lane::closed() {
  close_reported_ = closed_.has_value();
  return closed_;
}

} // namespace troupe::net
