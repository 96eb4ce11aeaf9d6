#include "troupe/actors/remoting/transfer_lane.hpp"

#include <new>
#include <utility>

namespace troupe {

namespace {

/// Maximum number of packets that one call of `progress` sends or receives.
constexpr int max_packets_per_call = 64;

static_assert(max_packet_bytes == net::max_packet_bytes);

} // namespace

transfer_lane::transfer_lane(std::unique_ptr<net::lane> carrier,
                             const tensor_transfer::lane_ends& ends,
                             const tensor_transfer::receiver_limits& limits)
  : carrier_{std::move(carrier)}, sender_{ends}, receiver_{ends, limits} {}

transfer_lane::~transfer_lane() {
  carrier_.reset(); // before the tensors that the peer may read in place
}

tensor_transfer::reaction transfer_lane::progress() {
  tensor_transfer::reaction effects;
  unfinished_ = false;
  int count = 0;
  for (bool moved = true; moved && !failure_; count += moved) {
    unfinished_ = count >= max_packets_per_call;
    if (unfinished_)
      break;
    const bool received = receive(effects);
    moved = (!failure_ && send()) || received;
  }
  if (!sender_.holds_cancelled())
    carrier_->send_posted();
  else if (carrier_->flush())
    sender_.release_cancelled();
  if (!unfinished_ && !failure_ && carrier_->closed()) {
    while (!failure_
           && receive(effects)) { // packets that arrived before the end
    }
    if (!failure_)
      failure_ = carrier_->closed()->reason;
  }
  return effects;
}

/// Handles the front packet. Returns true if it was complete.
bool transfer_lane::receive(tensor_transfer::reaction& effects) {
  const auto* bytes = carrier_->front();
  if (bytes == nullptr)
    return false;
  if (!destination_) {
    const auto header = tensor_transfer::read(*bytes);
    destination_.emplace();
    if (tensor_transfer::is_for_receiver(header.kind)) {
      auto place = receiver_.begin(header, carrier_->front_bytes());
      note(std::move(place.effects), effects);
      destination_ = place.destination;
    } else {
      note(sender_.on(header, carrier_->front_bytes()), effects);
    }
  }
  if (failure_ || !read_payload())
    return false;
  carrier_->pop();
  ++received_packets_;
  if (const auto used = std::exchange(destination_, std::nullopt);
      !used->empty()) {
    try {
      note(receiver_.finish(), effects);
    } catch (const std::bad_alloc&) {
      failure_ = "there is no memory for a tensor of the peer";
    }
  }
  return true;
}

/// Reads the payload of the front packet. Returns true if it is complete.
bool transfer_lane::read_payload() {
  if (!destination_->empty()) {
    if (!carrier_->fetch(*destination_))
      return false;
    if (!carrier_->is_intact())
      failure_ = "the peer has ended the lane";
    return !failure_;
  }
  if (carrier_->view().size() == carrier_->front_bytes()
      && carrier_->front_bytes() > 0)
    return true; // a packet that was viewed may be popped
  discarded_.resize(carrier_->front_bytes());
  return carrier_->fetch(discarded_);
}

/// Sends one packet. Returns false if there is none, or no space.
bool transfer_lane::send() {
  if (const auto header = receiver_.next()) {
    if (!carrier_->post(tensor_transfer::write(*header),
                        std::span<const std::byte>{}))
      return false;
    receiver_.sent(*header);
    return true;
  }
  const auto next = sender_.next();
  if (!next)
    return false;
  const auto header = tensor_transfer::write(next->header);
  const bool is_sent = next->header.kind == tensor_transfer::packet_kind::chunk
                         ? carrier_->post_zero_copy(header, next->payload)
                         : carrier_->post(header, next->payload);
  if (!is_sent)
    return false;
  sender_.sent();
  return true;
}

void transfer_lane::note(tensor_transfer::reaction&& news,
                         tensor_transfer::reaction& effects) {
  for (auto& x : news) {
    if (const auto* error = std::get_if<tensor_transfer::protocol_error>(&x))
      failure_ = error->reason;
    effects.push_back(std::move(x));
  }
}

bool transfer_lane::wait(std::chrono::nanoseconds timeout,
                         int wake_descriptor) {
  if (unfinished_ || failure_)
    return true;
  net::lane* const only[]{carrier_.get()};
  return net::wait_any(only, timeout, watched_, wake_descriptor);
}

} // namespace troupe
