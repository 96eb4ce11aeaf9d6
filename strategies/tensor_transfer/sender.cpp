#include "troupe/strategies/tensor_transfer/sender.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::tensor_transfer {

std::uint64_t sender::send(std::uint32_t channel, std::uint64_t message,
                           tensors values) {
  transfer x;
  x.channel = channel;
  x.message = message;
  for (const auto& value : values) {
    if (!value || value.bytes() == 0)
      throw std::logic_error("a transfer contains an empty tensor");
    x.bytes += value.bytes();
  }
  if (values.empty() || values.size() > max_tensors
      || x.bytes > max_transfer_bytes)
    throw std::logic_error("a transfer of " + std::to_string(values.size())
                           + " tensors with " + std::to_string(x.bytes)
                           + " bytes");
  x.values = std::move(values);
  held_bytes_ += x.bytes;
  transfers_.emplace(++last_, std::move(x));
  return last_;
}

void sender::cancel(std::uint64_t number) {
  const auto it = transfers_.find(number);
  if (it == transfers_.end())
    return;
  if (pending_ && pending_->transfer == number)
    pending_.reset(); // it is not sent
  auto& x = it->second;
  if (x.current == phase::cancelling)
    return;
  held_bytes_ -= x.bytes;
  if (x.current == phase::queued) {
    transfers_.erase(it);
    return;
  }
  if (x.position > 0)
    cancelled_.push_back(std::move(x.values));
  x.values.clear();
  x.current = phase::cancelling;
}

// -- packets of the receiver --------------------------------------------------

reaction sender::on(const packet_header& packet, std::size_t payload_bytes) {
  if (packet.generation != ends_.generation || packet.incarnation != ends_.peer)
    return {};
  if (payload_bytes != 0)
    return violation(packet, "a packet of the receiver has a payload");
  if (packet.transfer == 0 || packet.transfer > last_)
    return violation(packet, "there is no such transfer");
  const auto it = transfers_.find(packet.transfer);
  if (it == transfers_.end())
    return {}; // it has ended
  auto& x = it->second;
  if (x.current == phase::queued)
    return violation(packet, "it was not offered yet");
  if (packet.kind == packet_kind::grant)
    return on_grant(it, packet);
  if (packet.kind == packet_kind::refuse) {
    if (x.current == phase::cancelling)
      return {};
    cancel(packet.transfer); // sends `cancel`, which is the answer
    return {refused{packet.transfer}};
  }
  if (packet.kind != packet_kind::received)
    return violation(packet, "a packet of an unknown kind");
  if (x.current == phase::cancelling)
    return {}; // the pending `cancel` ends the transfer
  if (x.position < x.bytes)
    return violation(packet, "it was received before it was sent");
  held_bytes_ -= x.bytes;
  transfers_.erase(it);
  --open_;
  return {delivered{packet.transfer}};
}

reaction sender::on_grant(entry it, const packet_header& packet) {
  auto& x = it->second;
  if (packet.position > x.bytes)
    return violation(packet, "position " + std::to_string(packet.position)
                               + " of " + std::to_string(x.bytes)
                               + " bytes was granted");
  x.granted = std::max(x.granted, std::size_t{packet.position});
  return {};
}

// -- packets to the receiver --------------------------------------------------

packet_header sender::header_of(packet_kind kind, std::uint64_t number) const {
  packet_header header;
  header.generation = ends_.generation;
  header.incarnation = ends_.incarnation;
  header.transfer = number;
  header.kind = kind;
  return header;
}

std::optional<sender::outgoing> sender::next() {
  pending_.reset();
  auto out = offer_next();
  // The transfers take turns, beginning after the one of the last packet. A
  // transfer at or after `first_queued_` was not offered.
  const auto end = transfers_.lower_bound(first_queued_);
  const auto begin = transfers_.upper_bound(turn_);
  for (auto it = begin;
       !out && it != transfers_.end() && it->first < first_queued_; ++it)
    out = next_of(it);
  for (auto it = transfers_.begin(); !out && it != end && it->first <= turn_;
       ++it)
    out = next_of(it);
  if (out) {
    pending_ = out->header;
    pending_bytes_ = out->payload.size();
  }
  return out;
}

std::optional<sender::outgoing> sender::offer_next() {
  const auto it = transfers_.lower_bound(first_queued_);
  if (open_ >= max_transfers || it == transfers_.end())
    return std::nullopt;
  const auto& x = it->second;
  auto header = header_of(packet_kind::offer, it->first);
  header.bytes = x.bytes;
  header.message = x.message;
  header.channel = x.channel;
  header.tensors = static_cast<std::uint32_t>(x.values.size());
  return outgoing{header, {}};
}

std::optional<sender::outgoing> sender::next_of(entry it) {
  auto& x = it->second;
  if (x.current == phase::cancelling)
    return outgoing{header_of(packet_kind::cancel, it->first), {}};
  if (x.position >= x.granted)
    return std::nullopt;
  const auto& value = x.values[x.index];
  if (!x.spec_sent) {
    auto header = header_of(packet_kind::spec, it->first);
    header.tensors = static_cast<std::uint32_t>(x.index);
    spec_ = encode_spec(value.spec());
    return outgoing{header, spec_};
  }
  auto header = header_of(packet_kind::chunk, it->first);
  header.position = x.position;
  const auto bytes = std::min(
    {max_packet_bytes, x.granted - x.position, value.bytes() - x.offset});
  return outgoing{header, {value.raw() + x.offset, bytes}};
}

void sender::sent() {
  if (!pending_)
    return; // the transfer was cancelled in between
  const auto it = transfers_.find(pending_->transfer);
  auto& x = it->second;
  turn_ = it->first;
  switch (pending_->kind) {
    case packet_kind::offer:
      x.current = phase::offered;
      ++open_;
      first_queued_ = it->first + 1;
      break;
    case packet_kind::cancel:
      transfers_.erase(it);
      --open_;
      break;
    case packet_kind::spec:
      x.spec_sent = true;
      break;
    default:
      x.position += pending_bytes_;
      x.offset += pending_bytes_;
      if (x.offset == x.values[x.index].bytes()) {
        ++x.index;
        x.offset = 0;
        x.spec_sent = false;
      }
  }
  pending_.reset();
}

} // namespace troupe::tensor_transfer
