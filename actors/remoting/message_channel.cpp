#include "troupe/actors/remoting/message_channel.hpp"

#include "troupe/net/base/little_endian.hpp"
#include "troupe/strategies/tensor_transfer/packet.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Size of the number of tensors at the end of a bulk frame's payload.
constexpr std::size_t count_bytes = sizeof(std::uint32_t);

void append_count(std::vector<std::byte>& payload, std::size_t count) {
  payload.resize(payload.size() + count_bytes);
  net::store_le(payload.data() + payload.size() - count_bytes,
                static_cast<std::uint32_t>(count));
}

/// Removes the number from the payload. @pre the payload has `count_bytes`.
std::uint32_t take_count(std::vector<std::byte>& payload) {
  const auto count =
    net::load_le<std::uint32_t>(payload.data() + payload.size() - count_bytes);
  payload.resize(payload.size() - count_bytes);
  return count;
}

std::size_t bytes_of(const tensors& values) {
  std::size_t bytes = 0;
  for (const auto& x : values)
    bytes += x.bytes();
  return bytes;
}

} // namespace

message_channel::message_channel(std::shared_ptr<net::channel> frames,
                                 std::shared_ptr<tensor_channel> lane)
  : frames_{std::move(frames)}, lane_{std::move(lane)} {}

message_channel::~message_channel() {
  if (lane_)
    lane_->close();
}

// -- sending ------------------------------------------------------------------

std::optional<std::string>
message_channel::size_problem(std::size_t payload_bytes,
                              const tensors& lane_tensors,
                              net::priority priority) const {
  const auto lane_bytes = bytes_of(lane_tensors);
  const auto bytes = payload_bytes + lane_bytes;
  std::size_t limit = frames_->limits().max_payload(priority);
  if (lane_bytes > 0)
    limit = std::min(limit, tensor_transfer::max_transfer_bytes);
  if (lane_ && priority == net::priority::bulk)
    limit -= std::min(limit, count_bytes);
  if (bytes <= limit)
    return std::nullopt;
  return std::to_string(bytes) + " bytes; the limit of the channel is "
         + std::to_string(limit) + " bytes";
}

bool message_channel::post(net::frame&& message, tensors lane_tensors) {
  if (lane_ && message.priority == net::priority::bulk)
    append_count(message.payload, lane_tensors.size());
  const auto tag = message.tag;
  if (!frames_->post(std::move(message)))
    return false;
  if (!lane_tensors.empty())
    lane_->send(tag, std::move(lane_tensors));
  return true;
}

void message_channel::close(const std::string& reason) {
  if (frames_)
    frames_->close(reason);
}

// -- receiving ----------------------------------------------------------------

void message_channel::add(net::frame&& arrived) {
  if (arrived.priority == net::priority::control) {
    control_.push_back(std::move(arrived));
    return;
  }
  std::uint32_t count = 0;
  if (lane_) {
    if (arrived.payload.size() < count_bytes)
      return fail("a bulk frame does not end with a number of tensors");
    count = take_count(arrived.payload);
  }
  if (count > 0 && lane_ended_)
    return; // the connection ends
  if (count > 0)
    lane_->expect(arrived.tag);
  waiting_.push_back({std::move(arrived), count});
}

void message_channel::add(arrived_tensors&& arrived) {
  const auto tag = arrived.message;
  if (dropped_.erase(tag) > 0)
    return release(arrived.transfer);
  if (!arrived_.emplace(tag, std::move(arrived)).second)
    fail("tensors of the message with tag " + std::to_string(tag)
         + " arrived twice");
}

void message_channel::drop(net::frame&& arrived) {
  consumed(arrived.priority);
  if (!lane_ || lane_ended_ || arrived.priority != net::priority::bulk
      || arrived.payload.size() < count_bytes
      || take_count(arrived.payload) == 0)
    return;
  lane_->expect(arrived.tag);
  if (const auto it = arrived_.find(arrived.tag); it != arrived_.end()) {
    release(it->second.transfer);
    arrived_.erase(it);
  } else {
    dropped_.insert(arrived.tag);
  }
}

std::optional<received_message> message_channel::next() {
  if (!control_.empty()) {
    received_message message{std::move(control_.front()), {}, 0};
    control_.pop_front();
    return message;
  }
  if (waiting_.empty())
    return std::nullopt;
  auto& first = waiting_.front();
  received_message message;
  if (first.tensors > 0) {
    const auto it = arrived_.find(first.frame.tag);
    if (it == arrived_.end())
      return std::nullopt;
    if (it->second.tensors.size() != first.tensors) {
      fail("a message of " + std::to_string(first.tensors) + " tensors got "
           + std::to_string(it->second.tensors.size()));
      return std::nullopt;
    }
    message.lane_tensors = std::move(it->second.tensors);
    message.transfer = it->second.transfer;
    arrived_.erase(it);
  }
  message.frame = std::move(first.frame);
  waiting_.pop_front();
  return message;
}

void message_channel::end_lane() {
  lane_ended_ = true;
  waiting_.clear();
  arrived_.clear();
  dropped_.clear();
}

void message_channel::release(std::uint64_t transfer) {
  if (transfer > 0)
    lane_->release(transfer);
}

void message_channel::fail(const std::string& reason) {
  if (lane_)
    lane_->fail(reason);
}

} // namespace troupe
