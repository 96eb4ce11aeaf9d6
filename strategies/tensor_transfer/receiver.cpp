#include "troupe/strategies/tensor_transfer/receiver.hpp"

#include <algorithm>

namespace troupe::tensor_transfer {

namespace {

/// Bytes that are reserved for a transfer and for each of its tensors in
/// addition to the elements. They bound the number of small transfers.
constexpr std::size_t transfer_overhead = 4096, tensor_overhead = 512;

bool is_no_boolean(std::byte b) {
  return b > std::byte{1};
}

} // namespace

// -- memory -------------------------------------------------------------------

void receiver::open_channel(std::uint32_t channel) {
  channels_.emplace(channel, 0);
  admit();
}

void receiver::close_channel(std::uint32_t channel) {
  for (auto& [number, x] : transfers_)
    if (x.channel == channel
        && (x.current == phase::offered || x.current == phase::admitted)) {
      unreserve({channel, x.reserved, x.allocated});
      x.values.clear();
      x.current = phase::refused;
      x.notice_due = true;
    }
  for (auto it = delivered_.begin(); it != delivered_.end();)
    if (it->second.channel == channel) {
      unreserve(it->second);
      it = delivered_.erase(it);
    } else {
      ++it;
    }
  channels_.erase(channel);
  admit();
}

void receiver::release(std::uint64_t number) {
  const auto it = delivered_.find(number);
  if (it == delivered_.end())
    return;
  unreserve(it->second);
  delivered_.erase(it);
  admit();
}

std::set<std::uint32_t> receiver::unopened_channels() const {
  std::set<std::uint32_t> channels;
  for (const auto& [number, x] : transfers_)
    if (x.current == phase::offered && !channels_.contains(x.channel))
      channels.insert(x.channel);
  return channels;
}

bool receiver::holds_back(std::uint32_t channel, std::uint64_t message) const {
  return std::ranges::any_of(transfers_, [&](const auto& entry) {
    const auto& x = entry.second;
    return x.channel == channel && x.message == message
           && x.current == phase::offered;
  });
}

/// Admits the offered transfers that fit the limits, in the order of the
/// offers. A transfer that its channel's limit holds back is passed by those of
/// other channels.
void receiver::admit() {
  const auto fits = [](std::size_t bytes, std::size_t used, std::size_t limit) {
    return used == 0 || (used <= limit && bytes <= limit - used);
  };
  std::set<std::uint32_t> full;
  for (auto& [number, x] : transfers_) {
    const auto channel = channels_.find(x.channel);
    if (x.current != phase::offered || channel == channels_.end()
        || full.contains(x.channel))
      continue;
    const auto bytes = x.bytes + transfer_overhead + x.count * tensor_overhead;
    if (!fits(bytes, channel->second, limits_.max_channel_bytes)) {
      full.insert(x.channel);
      continue;
    }
    if (!fits(bytes, reserved_bytes_, limits_.max_bytes))
      break; // smaller transfers must not pass it for ever
    channel->second += bytes;
    reserved_bytes_ += bytes;
    x.reserved = bytes;
    x.granted = std::min(x.bytes, limits_.window_bytes);
    x.current = phase::admitted;
    x.notice_due = true;
  }
}

void receiver::unreserve(const reservation& x) {
  reserved_bytes_ -= x.reserved;
  allocated_bytes_ -= x.allocated;
  if (const auto it = channels_.find(x.channel); it != channels_.end())
    it->second -= x.reserved;
}

// -- packets of the sender ----------------------------------------------------

receiver::placement receiver::begin(const packet_header& packet,
                                    std::size_t payload_bytes) {
  if (packet.generation != ends_.generation || packet.incarnation != ends_.peer)
    return {};
  if (packet.kind == packet_kind::offer)
    return {{}, on_offer(packet, payload_bytes)};
  if (packet.transfer == 0 || packet.transfer > last_)
    return {{}, violation(packet, "it was not offered")};
  if (packet.kind == packet_kind::cancel)
    return {{}, on_cancel(packet, payload_bytes)};
  const auto it = transfers_.find(packet.transfer);
  if (it == transfers_.end() || it->second.current == phase::complete
      || it->second.current == phase::refused)
    return {}; // repeated, or sent before the sender has read `refuse`
  if (it->second.current == phase::offered)
    return {{}, violation(packet, "nothing was granted yet")};
  current_ = packet;
  current_bytes_ = payload_bytes;
  return packet.kind == packet_kind::spec
           ? on_spec(it->second, packet, payload_bytes)
           : on_chunk(it->second, packet, payload_bytes);
}

reaction receiver::on_offer(const packet_header& packet,
                            std::size_t payload_bytes) {
  if (packet.transfer <= last_)
    return {}; // repeated
  if (payload_bytes != 0)
    return violation(packet, "an offer has a payload");
  if (packet.tensors < 1 || packet.tensors > max_tensors
      || packet.bytes < packet.tensors || packet.bytes > max_transfer_bytes)
    return violation(packet, "an offer of " + std::to_string(packet.tensors)
                               + " tensors with " + std::to_string(packet.bytes)
                               + " bytes");
  if (transfers_.size() >= max_transfers)
    return violation(packet, std::to_string(max_transfers)
                               + " transfers are open already");
  last_ = packet.transfer;
  auto& x = transfers_[last_];
  x.channel = packet.channel;
  x.message = packet.message;
  x.bytes = packet.bytes;
  x.count = packet.tensors;
  admit();
  return {};
}

receiver::placement receiver::on_spec(transfer& x, const packet_header& packet,
                                      std::size_t payload_bytes) {
  if (packet.tensors < x.values.size())
    return {}; // repeated
  const bool last_complete =
    x.values.empty() || x.offset == x.values.back().bytes();
  if (packet.tensors != x.values.size() || x.values.size() == x.count
      || !last_complete)
    return {{},
            violation(packet, "the spec of tensor "
                                + std::to_string(packet.tensors)
                                + " is out of order")};
  if (payload_bytes != spec_.size())
    return {{},
            violation(packet,
                      "a spec of " + std::to_string(payload_bytes) + " bytes")};
  return {spec_, {}};
}

receiver::placement receiver::on_chunk(transfer& x, const packet_header& packet,
                                       std::size_t payload_bytes) {
  const auto place = [&] {
    return std::to_string(payload_bytes) + " bytes at position "
           + std::to_string(packet.position);
  };
  if (payload_bytes == 0 || payload_bytes > max_packet_bytes)
    return {{}, violation(packet, "a chunk of " + place())};
  if (packet.position < x.position
      && payload_bytes <= x.position - packet.position)
    return {}; // repeated
  if (packet.position != x.position)
    return {{},
            violation(packet, "a chunk of " + place() + ", but "
                                + std::to_string(x.position)
                                + " bytes have arrived")};
  if (payload_bytes > x.granted - x.position)
    return {{},
            violation(packet, "a chunk of " + place() + ", but only "
                                + std::to_string(x.granted)
                                + " bytes were granted")};
  if (x.values.empty() || payload_bytes > x.values.back().bytes() - x.offset)
    return {{},
            violation(packet,
                      "a chunk of " + place() + " extends beyond its tensor")};
  target_ = x.values.back();
  return {{target_.raw() + x.offset, payload_bytes}, {}};
}

reaction receiver::on_cancel(const packet_header& packet,
                             std::size_t payload_bytes) {
  if (payload_bytes != 0)
    return violation(packet, "a cancellation has a payload");
  const auto it = transfers_.find(packet.transfer);
  if (it == transfers_.end())
    return {}; // it has arrived
  if (it->second.current == phase::complete) {
    transfers_.erase(it); // it has arrived; the sender awaits no `received`
    return {};
  }
  const auto x = std::move(it->second);
  transfers_.erase(it);
  if (x.current == phase::refused)
    return {}; // the answer to `refuse`
  unreserve({x.channel, x.reserved, x.allocated});
  admit();
  return {cancelled{packet.transfer, x.channel, x.message}};
}

reaction receiver::finish() {
  const auto keep = std::exchange(target_, {});
  const auto it = transfers_.find(current_.transfer);
  if (it == transfers_.end() || it->second.current != phase::admitted)
    return {}; // the channel was closed in between
  return current_.kind == packet_kind::spec ? finish_spec(it->second)
                                            : finish_chunk(it->second);
}

reaction receiver::finish_spec(transfer& x) {
  const auto rest = x.bytes - x.position;
  const auto later = x.count - x.values.size() - 1; // one byte each, at least
  tensor_spec spec;
  if (!decode_spec(spec_, rest - later, spec))
    return violation(current_, "the spec of tensor "
                                 + std::to_string(x.values.size())
                                 + " is malformed, or larger than the offer");
  const auto bytes = spec.dims.elements() * size_of(spec.type);
  if (bytes == 0 || (later == 0 && bytes != rest))
    return violation(current_, "tensor " + std::to_string(x.values.size())
                                 + " has " + std::to_string(bytes)
                                 + " bytes, but " + std::to_string(rest)
                                 + " bytes of the offer are left");
  x.values.emplace_back(spec);
  x.offset = 0;
  x.allocated += bytes;
  allocated_bytes_ += bytes;
  return {};
}

reaction receiver::finish_chunk(transfer& x) {
  const auto& value = x.values.back();
  const std::span payload{value.raw() + x.offset, current_bytes_};
  if (value.type() == dtype::boolean
      && std::ranges::any_of(payload, is_no_boolean))
    return violation(current_, "an element is neither true nor false");
  x.offset += current_bytes_;
  x.position += current_bytes_;
  if (x.position == x.bytes)
    return complete(x);
  const auto next_grant = std::min(x.bytes, x.position + limits_.window_bytes);
  if (x.granted < next_grant
      && x.granted - x.position <= limits_.window_bytes / 2) {
    x.granted = next_grant;
    x.notice_due = true;
  }
  return {};
}

reaction receiver::complete(transfer& x) {
  x.current = phase::complete;
  x.notice_due = true;
  delivered_.emplace(current_.transfer,
                     reservation{x.channel, x.reserved, x.allocated});
  return {arrived{current_.transfer, x.channel, x.message,
                  std::exchange(x.values, {})}};
}

// -- packets to the sender ----------------------------------------------------

std::optional<packet_header> receiver::next() const {
  for (const auto& [number, x] : transfers_) {
    if (!x.notice_due)
      continue;
    packet_header header;
    header.generation = ends_.generation;
    header.incarnation = ends_.incarnation;
    header.transfer = number;
    header.kind = x.current == phase::complete  ? packet_kind::received
                  : x.current == phase::refused ? packet_kind::refuse
                                                : packet_kind::grant;
    header.position = x.current == phase::admitted ? x.granted : 0;
    return header;
  }
  return std::nullopt;
}

void receiver::sent(const packet_header& packet) {
  const auto it = transfers_.find(packet.transfer);
  if (it == transfers_.end())
    return;
  auto& x = it->second;
  if (packet.kind == packet_kind::received)
    transfers_.erase(it);
  else
    x.notice_due =
      x.current == phase::complete
      || (x.current == phase::refused && packet.kind != packet_kind::refuse)
      || (x.current == phase::admitted && packet.position != x.granted);
}

} // namespace troupe::tensor_transfer
