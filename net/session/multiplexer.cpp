#include "troupe/net/session/multiplexer.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::net {

namespace {

std::size_t index(priority x) {
  return static_cast<std::size_t>(x);
}

std::string channel_name(std::uint32_t channel) {
  return "channel " + std::to_string(channel);
}

multiplexer::closed_state protocol_violation(std::string reason) {
  return {close_reason::protocol_error, std::move(reason)};
}

/// Shortens a text and makes it printable, because the peer may have sent it.
std::string shortened(const std::string& text) {
  constexpr std::size_t max_bytes = 1000;
  return printable(text, max_bytes);
}

} // namespace

multiplexer::channel_state& multiplexer::find_or_create(std::uint32_t number) {
  const auto [found, created] = channels_.try_emplace(number);
  if (created) {
    found->second.buffered_bytes = bytes_per_channel;
    buffered_bytes_ += bytes_per_channel;
  }
  return found->second;
}

multiplexer::result multiplexer::buffer_event(channel_state& target,
                                              event&& item) {
  // A node of the map `channels_` holds a `channel_state`, and a key and links
  // that take at most 64 bytes. The capacity of the vector `buffered` is at
  // most twice its size.
  static_assert(bytes_per_channel >= sizeof(channel_state) + 64
                && bytes_per_event >= 2 * sizeof(event));
  const auto bytes =
    bytes_per_event
    + (item.received ? item.received->payload.size() : item.reason.size());
  target.buffered_bytes += bytes;
  buffered_bytes_ += bytes;
  if (buffered_bytes_ > max_buffered_bytes)
    return protocol_violation("more than " + std::to_string(max_buffered_bytes)
                              + " bytes for channels that are not open");
  target.buffered.push_back(std::move(item));
  return {};
}

std::vector<multiplexer::event> multiplexer::open(std::uint32_t number) {
  if (number == 0)
    throw std::logic_error{"channel 0 is the connection's own"};
  const auto found = channels_.find(number);
  if (found == channels_.end()) {
    channels_[number].opened = true;
    return {};
  }
  auto& state = found->second;
  if (std::exchange(state.opened, true))
    throw std::logic_error{channel_name(number) + " is opened a second time"};
  buffered_bytes_ -= std::exchange(state.buffered_bytes, 0);
  auto buffered = std::exchange(state.buffered, {});
  if (!buffered.empty() && !buffered.back().received) // its end was buffered
    channels_.erase(found);
  return buffered;
}

bool multiplexer::has_ended(std::uint32_t number) const {
  const auto found = channels_.find(number);
  return closing_ || found == channels_.end() || found->second.closing;
}

bool multiplexer::post(std::uint32_t number, frame&& outgoing) {
  if (has_ended(number))
    return false;
  if (outgoing.payload.size() > limits_.max_payload(outgoing.priority))
    throw std::logic_error{
      "a frame of " + std::to_string(outgoing.payload.size()) + " bytes, but "
      + std::to_string(limits_.max_payload(outgoing.priority))
      + " is the limit"};
  auto& sent = channels_.at(number).sent[index(outgoing.priority)];
  if (sent == credits_of(outgoing.priority)
      || output_.queued_bytes(outgoing.priority) >= max_queued_bytes)
    return false;
  ++sent;
  outgoing.channel = number;
  output_.push(outgoing);
  return true;
}

void multiplexer::consumed(std::uint32_t number, priority frame_priority) {
  const auto found = channels_.find(number);
  if (found == channels_.end())
    return;
  auto& state = found->second;
  const auto i = index(frame_priority);
  if (state.consumed[i] == state.received[i])
    return; // the caller has consumed more frames than it received
  if (++state.consumed[i] < credits_of(frame_priority) / 4)
    return;
  send_control(control_frame::credit,
               encode(number, frame_priority,
                      static_cast<std::uint32_t>(state.consumed[i])));
  state.received[i] -= std::exchange(state.consumed[i], 0);
}

void multiplexer::send_control(control_frame kind,
                               std::vector<std::byte> payload,
                               priority frame_priority) {
  output_.push({.priority = frame_priority,
                .tag = static_cast<std::uint64_t>(kind),
                .payload = std::move(payload)});
}

/// Sends `close` with bulk priority, so that it follows all posted frames.
void multiplexer::close(std::uint32_t number, const std::string& reason) {
  const auto found = channels_.find(number);
  if (closing_ || found == channels_.end() || found->second.closing)
    return;
  found->second.closing = reason;
  send_control(control_frame::close, encode(number, shortened(reason)),
               priority::bulk);
}

void multiplexer::send_heartbeat() {
  if (!closing_)
    send_control(control_frame::heartbeat);
}

void multiplexer::send_goaway(const std::string& reason) {
  if (!std::exchange(closing_, true))
    send_control(control_frame::goaway, encode(shortened(reason)),
                 priority::bulk);
}

std::optional<multiplexer::closed_state>
multiplexer::receive(std::span<const std::byte> bytes,
                     std::vector<event>& events) {
  while (!bytes.empty()) {
    auto next = decoder_.next(bytes);
    if (const auto* bad = std::get_if<decode_error>(&next))
      return protocol_violation(to_string(*bad));
    if (auto* whole = std::get_if<frame>(&next))
      if (auto end_state = on_frame(std::move(*whole), events))
        return end_state;
  }
  if (output_.queued_bytes(priority::control)
      > max_queued_bytes + header_size + limits_.max_payload(priority::control)
          + max_queued_reply_bytes)
    return protocol_violation(
      "it keeps sending, but does not read the replies");
  return {};
}

multiplexer::result multiplexer::on_frame(frame&& incoming,
                                          std::vector<event>& events) {
  if (incoming.channel == 0)
    return on_control_frame(incoming, events);
  const auto number = incoming.channel;
  auto& target = find_or_create(number);
  auto& received = target.received[index(incoming.priority)];
  if (received == credits_of(incoming.priority))
    return protocol_violation("more frames on " + channel_name(number)
                              + " than its credits");
  ++received;
  if (target.opened) {
    events.push_back({number, std::move(incoming)});
    return {};
  }
  if (!target.buffered.empty() && !target.buffered.back().received)
    return protocol_violation("a frame on " + channel_name(number)
                              + " after its close");
  return buffer_event(target, {number, std::move(incoming)});
}

multiplexer::result multiplexer::on_control_frame(const frame& incoming,
                                                  std::vector<event>& events) {
  switch (static_cast<control_frame>(incoming.tag)) {
    case control_frame::heartbeat:
      return {};
    case control_frame::credit:
      return on_credit(incoming);
    case control_frame::close:
      return on_close(incoming, events);
    case control_frame::close_ack:
      return on_close_ack(incoming, events);
    case control_frame::goaway:
      break;
    default:
      return protocol_violation("channel 0: control frame "
                                + std::to_string(incoming.tag) + " is unknown");
  }
  std::string reason;
  if (const auto bad = decode(incoming.payload, reason))
    return protocol_violation("a goaway: " + to_string(*bad));
  return closed_state{close_reason::closed, shortened(reason), true};
}

multiplexer::result multiplexer::on_credit(const frame& incoming) {
  std::uint32_t number = 0, count = 0;
  priority frame_priority{};
  if (const auto bad = decode(incoming.payload, number, frame_priority, count))
    return protocol_violation("a credit: " + to_string(*bad));
  const auto found = channels_.find(number);
  if (found == channels_.end())
    return {}; // the channel has ended since the peer sent this
  auto& sent = found->second.sent[index(frame_priority)];
  if (count > sent)
    return protocol_violation("more credits for " + channel_name(number)
                              + " than frames");
  sent -= count;
  return {};
}

multiplexer::result multiplexer::on_close(const frame& incoming,
                                          std::vector<event>& events) {
  std::uint32_t number = 0;
  std::string reason;
  if (const auto bad = decode(incoming.payload, number, reason))
    return protocol_violation("a close: " + to_string(*bad));
  if (number == 0)
    return protocol_violation("a close of " + channel_name(number));
  auto& target = find_or_create(number);
  if (target.closing) { // both sides sent `close`: neither replies
    events.push_back({number, {}, std::move(*target.closing)});
    channels_.erase(number);
    return {};
  }
  send_control(control_frame::close_ack, encode(number), priority::bulk);
  event final_event{number, {}, shortened(reason)};
  if (target.opened) {
    events.push_back(std::move(final_event));
    channels_.erase(number);
    return {};
  }
  if (!target.buffered.empty() && !target.buffered.back().received)
    return protocol_violation("a second close of " + channel_name(number));
  return buffer_event(target, std::move(final_event));
}

multiplexer::result multiplexer::on_close_ack(const frame& incoming,
                                              std::vector<event>& events) {
  std::uint32_t number = 0;
  if (const auto bad = decode(incoming.payload, number))
    return protocol_violation("a close_ack: " + to_string(*bad));
  const auto found = channels_.find(number);
  if (found == channels_.end() || !found->second.closing)
    return protocol_violation(channel_name(number) + " was not being closed");
  events.push_back({number, {}, std::move(*found->second.closing)});
  channels_.erase(found);
  return {};
}

} // namespace troupe::net
