#include "troupe/actors/remoting/skeleton_core.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

bool duplicate_filter::add(std::uint64_t tag) {
  if (tag > newest_) {
    if (tag - newest_ >= window)
      seen_.reset();
    else
      for (auto i = newest_ + 1; i < tag; ++i)
        seen_.reset(i % window);
    newest_ = tag;
  } else if (newest_ - tag >= window || seen_[tag % window]) {
    return false;
  }
  seen_.set(tag % window);
  return true;
}

skeleton_core::~skeleton_core() {
  if (channel_)
    channel_->close("the skeleton ended");
}

void skeleton_core::open(std::shared_ptr<net::channel> channel,
                         const skeleton_options& options) {
  channel_ = std::move(channel);
  options_ = options;
}

std::chrono::milliseconds
skeleton_core::timeout_of(std::uint32_t asked_ms) const {
  return std::min(options_.request_timeout,
                  std::chrono::milliseconds{asked_ms});
}

bool skeleton_core::accept_frame(const net::frame& frame) {
  const bool fresh =
    duplicates_[static_cast<std::size_t>(frame.priority)].add(frame.tag);
  const bool accepted = fresh && frame.view_id == options_.view_id;
  if (!accepted || frame.kind != net::frame_kind::oneway)
    channel_->consumed(frame.priority);
  if (accepted || !fresh)
    return accepted;
  if (frame.kind == net::frame_kind::request) {
    net::writer out;
    out(ec::superseded, "view " + std::to_string(frame.view_id)
                          + ", but the current view is "
                          + std::to_string(options_.view_id));
    channel_->post({net::frame_kind::error, net::priority::control,
                    frame.view_id, frame.tag, std::move(out).bytes()});
  }
  return false;
}

/// True if unread oneway messages use at least a quarter of the credits. With
/// fewer unread messages the proxy can still send, and a receipt costs more
/// than it gains.
bool skeleton_core::is_receipt_due(net::priority priority) const {
  return unread_[static_cast<std::size_t>(priority)]
         >= std::max<std::size_t>(channel_->credits(priority) / 4, 1);
}

bool skeleton_core::on_oneway_delivered(net::priority priority) {
  ++unread_[static_cast<std::size_t>(priority)];
  return !receipt_pending_ && is_receipt_due(priority);
}

void skeleton_core::begin_receipt() {
  receipt_pending_ = true;
  in_receipt_ = unread_;
}

bool skeleton_core::on_receipt() {
  receipt_pending_ = false;
  for (const auto priority : {net::priority::control, net::priority::bulk}) {
    const auto i = static_cast<std::size_t>(priority);
    unread_[i] -= in_receipt_[i];
    for (auto left = std::exchange(in_receipt_[i], 0); left > 0; --left)
      channel_->consumed(priority);
  }
  return is_receipt_due(net::priority::control)
         || is_receipt_due(net::priority::bulk);
}

bool skeleton_core::begin_request(const net::frame& frame) {
  const auto accepted = open_requests_.size() < options_.window;
  open_requests_.insert(frame.tag);
  if (!accepted)
    fail_request(frame.tag,
                 {ec::busy, "the role has " + std::to_string(options_.window)
                              + " open requests already"});
  return accepted;
}

void skeleton_core::respond(std::uint64_t tag, net::writer&& response,
                            net::priority priority) {
  if (open_requests_.erase(tag) > 0)
    send_frame(net::frame_kind::response, priority, tag, std::move(response));
}

void skeleton_core::fail_request(std::uint64_t tag,
                                 const wire::wire_error& reason) {
  if (open_requests_.erase(tag) == 0)
    return;
  net::writer out;
  out(reason.code, reason.text);
  send_frame(net::frame_kind::error, net::priority::control, tag,
             std::move(out));
}

/// Sends a frame to the proxy. If the channel does not accept a response, the
/// response is lost, and the request fails by the proxy's timeout.
void skeleton_core::send_frame(net::frame_kind kind, net::priority priority,
                               std::uint64_t tag, net::writer&& response) {
  auto payload = std::move(response).bytes();
  if (const auto limit = channel_->limits().max_payload(priority);
      payload.size() > limit) {
    net::writer error_writer;
    error_writer(ec::invalid, "a response of " + std::to_string(payload.size())
                                + " bytes; the limit of the channel is "
                                + std::to_string(limit) + " bytes");
    kind = net::frame_kind::error;
    priority = net::priority::control;
    payload = std::move(error_writer).bytes();
  }
  channel_->post({kind, priority, options_.view_id, tag, std::move(payload)});
}

void skeleton_core::send_terminated(const wire::wire_error& reason) {
  while (!open_requests_.empty())
    fail_request(*open_requests_.begin(), reason);
  net::writer out;
  out(reason.code, reason.text);
  send_frame(net::frame_kind::terminated, net::priority::control, 0,
             std::move(out));
}

caf::error skeleton_core::report_violation(const net::frame& frame,
                                           const std::string& reason) {
  const wire::wire_error error{ec::protocol, reason};
  if (frame.kind == net::frame_kind::request) {
    open_requests_.insert(frame.tag);
    fail_request(frame.tag, error);
  }
  send_terminated(error);
  return wire::from_wire(error);
}

caf::error skeleton_core::on_role_lost(const caf::error& reason,
                                       caf::actor_system& sys) {
  if (!reason || reason == caf::exit_reason::user_shutdown) {
    send_terminated({ec::cancelled, "the role was stopped"});
    return reason;
  }
  send_terminated({ec::peer_lost, "the role ended: " + sys.render(reason)});
  return caf::make_error(ec::peer_lost,
                         "the role ended: " + sys.render(reason));
}

} // namespace troupe
