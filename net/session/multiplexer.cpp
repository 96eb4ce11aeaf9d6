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

std::string named(std::uint32_t channel) {
  return "channel " + std::to_string(channel);
}

switchboard::end broken(std::string why) {
  return {ending::broken, std::move(why)};
}

/// Makes a text of the other side short and printable.
std::string shortened(const std::string& x) {
  constexpr std::size_t most = 1000;
  return printable(x, most);
}

} // namespace

switchboard::channel& switchboard::at(std::uint32_t number) {
  const auto [found, made] = channels_.try_emplace(number);
  if (made) {
    found->second.kept_bytes = bytes_per_channel;
    kept_bytes_ += bytes_per_channel;
  }
  return found->second;
}

switchboard::result switchboard::keep(channel& to, event&& x) {
  // 64 bytes for the node of the map, twice the event for the vector's
  // capacity.
  static_assert(bytes_per_channel >= sizeof(channel) + 64
                && bytes_per_event >= 2 * sizeof(event));
  const auto bytes =
    bytes_per_event + (x.heard ? x.heard->payload.size() : x.ended.size());
  to.kept_bytes += bytes;
  kept_bytes_ += bytes;
  if (kept_bytes_ > most_kept_bytes)
    return broken("more than " + std::to_string(most_kept_bytes)
                  + " bytes for channels that are not open");
  to.kept.push_back(std::move(x));
  return {};
}

std::vector<switchboard::event> switchboard::open(std::uint32_t number) {
  if (number == 0)
    throw std::logic_error{"channel 0 is the connection's own"};
  const auto found = channels_.find(number);
  if (found == channels_.end()) {
    channels_[number].opened = true;
    return {};
  }
  auto& x = found->second;
  if (std::exchange(x.opened, true))
    throw std::logic_error{named(number) + " is opened a second time"};
  kept_bytes_ -= std::exchange(x.kept_bytes, 0);
  auto kept = std::exchange(x.kept, {});
  if (!kept.empty() && !kept.back().heard) // it has ended already
    channels_.erase(found);
  return kept;
}

bool switchboard::post(std::uint32_t number, frame&& x) {
  const auto found = channels_.find(number);
  if (parting_ || found == channels_.end() || found->second.closing)
    return false;
  if (x.payload.size() > limits_.of(x.priority))
    throw std::logic_error{
      "a frame of " + std::to_string(x.payload.size()) + " bytes, but "
      + std::to_string(limits_.of(x.priority)) + " is the limit"};
  auto& sent = found->second.sent[index(x.priority)];
  if (sent == credits_of(x.priority)
      || out_.waiting(x.priority) >= most_waiting_bytes)
    return false;
  ++sent;
  x.channel = number;
  out_.push(x);
  return true;
}

void switchboard::consumed(std::uint32_t number, priority how) {
  const auto found = channels_.find(number);
  if (found == channels_.end())
    return;
  auto& x = found->second;
  const auto i = index(how);
  if (x.owed[i] == x.taken[i])
    return; // called more often than frames were received
  if (++x.owed[i] < credits_of(how) / 4)
    return;
  speak(service::credit,
        encode(number, how, static_cast<std::uint32_t>(x.owed[i])));
  x.taken[i] -= std::exchange(x.owed[i], 0);
}

void switchboard::speak(service what, std::vector<std::byte> payload,
                        priority how) {
  out_.push({.priority = how,
             .tag = static_cast<std::uint64_t>(what),
             .payload = std::move(payload)});
}

/// Sent with bulk priority, so that it follows all posted frames.
void switchboard::close(std::uint32_t number, const std::string& why) {
  const auto found = channels_.find(number);
  if (parting_ || found == channels_.end() || found->second.closing)
    return;
  found->second.closing = why;
  speak(service::close, encode(number, shortened(why)), priority::bulk);
}

void switchboard::beat() {
  if (!parting_)
    speak(service::heartbeat);
}

void switchboard::say_goodbye(const std::string& why) {
  if (!std::exchange(parting_, true))
    speak(service::goodbye, encode(shortened(why)), priority::bulk);
}

std::optional<switchboard::end>
switchboard::take(std::span<const std::byte> bytes,
                  std::vector<event>& events) {
  while (!bytes.empty()) {
    auto next = decoder_.next(bytes);
    if (const auto* bad = std::get_if<malformed>(&next))
      return broken(to_string(*bad));
    if (auto* whole = std::get_if<frame>(&next))
      if (auto over = on_frame(std::move(*whole), events))
        return over;
  }
  if (out_.waiting(priority::control) > most_waiting_bytes + header_size
                                          + limits_.of(priority::control)
                                          + most_answer_bytes)
    return broken("it keeps sending, but does not read the replies");
  return {};
}

switchboard::result switchboard::on_frame(frame&& x,
                                          std::vector<event>& events) {
  if (x.channel == 0)
    return on_service(x, events);
  const auto number = x.channel;
  auto& to = at(number);
  auto& taken = to.taken[index(x.priority)];
  if (taken == credits_of(x.priority))
    return broken("more frames on " + named(number) + " than its credits");
  ++taken;
  if (to.opened) {
    events.push_back({number, std::move(x)});
    return {};
  }
  if (!to.kept.empty() && !to.kept.back().heard)
    return broken("a frame on " + named(number) + " after its close");
  return keep(to, {number, std::move(x)});
}

switchboard::result switchboard::on_service(const frame& x,
                                            std::vector<event>& events) {
  switch (static_cast<service>(x.tag)) {
    case service::heartbeat:
      return {};
    case service::credit:
      return on_credit(x);
    case service::close:
      return on_close(x, events);
    case service::closed:
      return on_closed(x, events);
    case service::goodbye:
      break;
    default:
      return broken("channel 0: control frame " + std::to_string(x.tag)
                    + " is unknown");
  }
  std::string why;
  if (const auto bad = decode(x.payload, why))
    return broken("a goaway: " + to_string(*bad));
  return end{ending::dead, shortened(why), true};
}

switchboard::result switchboard::on_credit(const frame& x) {
  std::uint32_t number = 0, count = 0;
  priority how{};
  if (const auto bad = decode(x.payload, number, how, count))
    return broken("a credit: " + to_string(*bad));
  const auto found = channels_.find(number);
  if (found == channels_.end())
    return {}; // it was closed in the meantime
  auto& sent = found->second.sent[index(how)];
  if (count > sent)
    return broken("more credits for " + named(number) + " than frames");
  sent -= count;
  return {};
}

switchboard::result switchboard::on_close(const frame& x,
                                          std::vector<event>& events) {
  std::uint32_t number = 0;
  std::string why;
  if (const auto bad = decode(x.payload, number, why))
    return broken("a close: " + to_string(*bad));
  if (number == 0)
    return broken("a close of " + named(number));
  auto& to = at(number);
  if (to.closing) { // both sides sent `close`: neither replies
    events.push_back({number, {}, std::move(*to.closing)});
    channels_.erase(number);
    return {};
  }
  speak(service::closed, encode(number), priority::bulk);
  event last{number, {}, shortened(why)};
  if (to.opened) {
    events.push_back(std::move(last));
    channels_.erase(number);
    return {};
  }
  if (!to.kept.empty() && !to.kept.back().heard)
    return broken("a second close of " + named(number));
  return keep(to, std::move(last));
}

switchboard::result switchboard::on_closed(const frame& x,
                                           std::vector<event>& events) {
  std::uint32_t number = 0;
  if (const auto bad = decode(x.payload, number))
    return broken("a close_ack: " + to_string(*bad));
  const auto found = channels_.find(number);
  if (found == channels_.end() || !found->second.closing)
    return broken(named(number) + " was not being closed");
  events.push_back({number, {}, std::move(*found->second.closing)});
  channels_.erase(found);
  return {};
}

} // namespace troupe::net
