#include "troupe/actors/remoting/skeleton_core.hpp"

#include "troupe/actors/core/log.hpp"

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
  channel_.close("the skeleton ended");
}

void skeleton_core::open(std::shared_ptr<net::channel> channel,
                         const skeleton_options& options) {
  channel_ = {std::move(channel), options.lane};
  options_ = options;
  options_.lane = nullptr;
}

std::chrono::milliseconds
skeleton_core::timeout_of(std::uint32_t asked_ms) const {
  return std::min(options_.request_timeout,
                  std::chrono::milliseconds{asked_ms});
}

void skeleton_core::add(net::frame& frame) {
  auto& seen = duplicates_[static_cast<std::size_t>(frame.priority)];
  if (!seen.add(frame.tag)) // its tensors belong to the first frame
    channel_.consumed(frame.priority);
  else if (frame.view_id != options_.view_id)
    drop_other_view(frame);
  else
    channel_.add(std::move(frame));
}

/// Drops a frame of another view. The sender of a request gets an error.
void skeleton_core::drop_other_view(net::frame& frame) {
  if (frame.kind == net::frame_kind::request) {
    net::writer out;
    out(ec::superseded, "view " + std::to_string(frame.view_id)
                          + ", but the current view is "
                          + std::to_string(options_.view_id));
    channel_.post({net::frame_kind::error, net::priority::control,
                   frame.view_id, frame.tag, std::move(out).bytes()},
                  {});
  }
  channel_.drop(std::move(frame));
}

void skeleton_core::add(arrived_tensors& arrived) {
  channel_.add(std::move(arrived));
}

std::optional<received_message> skeleton_core::next_message() {
  auto message = channel_.next();
  if (message && message->frame.kind != net::frame_kind::oneway)
    channel_.consumed(message->frame.priority);
  return message;
}

/// True if unread oneway messages use at least a quarter of the credits. With
/// fewer unread messages the proxy can still send, and a receipt costs more
/// than it gains.
bool skeleton_core::is_receipt_due(net::priority priority) const {
  return unread_[static_cast<std::size_t>(priority)]
         >= std::max<std::size_t>(channel_.credits(priority) / 4, 1);
}

/// True if a receipt would return credits that the proxy may need. The memory
/// of tensors is returned at once.
bool skeleton_core::is_receipt_due() const {
  return !unread_transfers_.empty() || is_receipt_due(net::priority::control)
         || is_receipt_due(net::priority::bulk);
}

bool skeleton_core::on_oneway_delivered(const received_message& message) {
  ++unread_[static_cast<std::size_t>(message.frame.priority)];
  if (message.transfer > 0)
    unread_transfers_.push_back(message.transfer);
  return !receipt_pending_ && is_receipt_due();
}

bool skeleton_core::on_request_delivered(const received_message& message) {
  if (message.transfer == 0)
    return false;
  unread_transfers_.push_back(message.transfer);
  return !receipt_pending_;
}

void skeleton_core::begin_receipt() {
  receipt_pending_ = true;
  in_receipt_ = unread_;
  transfers_in_receipt_.insert(transfers_in_receipt_.end(),
                               unread_transfers_.begin(),
                               unread_transfers_.end());
  unread_transfers_.clear();
}

bool skeleton_core::on_receipt() {
  receipt_pending_ = false;
  for (const auto priority : {net::priority::control, net::priority::bulk}) {
    const auto i = static_cast<std::size_t>(priority);
    unread_[i] -= in_receipt_[i];
    for (auto left = std::exchange(in_receipt_[i], 0); left > 0; --left)
      channel_.consumed(priority);
  }
  for (const auto transfer : std::exchange(transfers_in_receipt_, {}))
    channel_.release(transfer);
  return is_receipt_due();
}

bool skeleton_core::begin_request(const received_message& message) {
  const auto accepted = open_requests_.size() < options_.window;
  const auto tag = message.frame.tag;
  open_requests_.insert(tag);
  if (!accepted) {
    channel_.release(message.transfer);
    fail_request(tag,
                 {ec::busy, "the role has " + std::to_string(options_.window)
                              + " open requests already"});
  }
  return accepted;
}

void skeleton_core::respond(std::uint64_t tag, wire::message_writer&& response,
                            net::priority priority) {
  const auto it = open_requests_.find(tag);
  if (it == open_requests_.end())
    return;
  if (send_frame(net::frame_kind::response, priority, tag, std::move(response)))
    open_requests_.erase(it);
  else
    fail_request(tag, {ec::busy, "the response was lost: the channel accepts "
                                 "no more frames"});
}

void skeleton_core::fail_request(std::uint64_t tag,
                                 const wire::wire_error& reason) {
  if (open_requests_.erase(tag) == 0)
    return;
  if (send_error(net::frame_kind::error, tag, reason))
    return;
  const auto problem =
    "the response to a request was lost (" + reason.text + ")";
  if (reason.code == ec::cancelled) // the proxy was stopped, too
    channel_.close(problem);
  else
    close_channel(problem);
}

/// Sends a message to the proxy. A message beyond the limit becomes an error.
/// @returns false if the channel accepts no more frames.
bool skeleton_core::send_frame(net::frame_kind kind, net::priority priority,
                               std::uint64_t tag,
                               wire::message_writer&& message) {
  auto lane_tensors = std::move(message).take_lane_tensors();
  auto payload = std::move(message).bytes();
  if (const auto problem =
        channel_.size_problem(payload.size(), lane_tensors, priority))
    return send_error(net::frame_kind::error, tag,
                      {ec::invalid, "a response of " + *problem});
  return channel_.post(
    {kind, priority, options_.view_id, tag, std::move(payload)},
    std::move(lane_tensors));
}

bool skeleton_core::send_error(net::frame_kind kind, std::uint64_t tag,
                               const wire::wire_error& error) {
  wire::message_writer out;
  out(error.code, error.text);
  return send_frame(kind, net::priority::control, tag, std::move(out));
}

/// Closes the channel, because the proxy would wait for a message that cannot
/// be sent. The proxy then fails its requests.
void skeleton_core::close_channel(const std::string& reason) {
  (options_.log ? options_.log : net::log_function{log_of_connections})(
    net::severity::warning, "a role's channel was closed: " + reason);
  channel_.close(reason);
}

void skeleton_core::send_terminated(const wire::wire_error& reason) {
  while (!open_requests_.empty())
    fail_request(*open_requests_.begin(), reason);
  send_error(net::frame_kind::terminated, 0, reason);
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
