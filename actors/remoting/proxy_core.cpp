#include "troupe/actors/remoting/proxy_core.hpp"

#include "troupe/actors/core/log.hpp"

#include <caf/exit_reason.hpp>

#include <utility>

namespace troupe {

namespace {

constexpr auto warning_interval = std::chrono::seconds{10};

std::string text_of_loss(const std::string& message, const std::string& target,
                         const std::string& problem) {
  return "the message " + message + " to " + target
         + " was not sent: " + problem;
}

} // namespace

proxy_core::~proxy_core() {
  if (!end_error_)
    end_error_ = caf::make_error(ec::peer_lost, std::string{"the proxy ended"});
  for (auto& [tag, x] : pending_)
    x.promise.deliver(end_error_);
  channel_.close("the proxy ended");
}

void proxy_core::open(std::shared_ptr<net::channel> channel,
                      const proxy_options& options) {
  channel_ = {std::move(channel), options.lane};
  options_ = options;
  options_.lane = nullptr;
}

std::uint32_t proxy_core::request_timeout_ms() const {
  return static_cast<std::uint32_t>(options_.request_timeout.count());
}

caf::error proxy_core::check_size(std::size_t bytes,
                                  const tensors& lane_tensors,
                                  net::priority priority) const {
  if (const auto problem = channel_.size_problem(bytes, lane_tensors, priority))
    return caf::make_error(ec::invalid, "a message of " + *problem);
  return {};
}

/// Sends a frame with the next tag. Returns true if the channel accepted it.
bool proxy_core::send_frame(net::frame_kind kind, net::priority priority,
                            std::vector<std::byte>&& payload,
                            tensors lane_tensors) {
  const bool taken = channel_.post(
    {kind, priority, options_.view_id, last_tag_ + 1, std::move(payload)},
    std::move(lane_tensors));
  last_tag_ += taken;
  return taken;
}

caf::error proxy_core::send_oneway(wire::message_writer&& message,
                                   net::priority priority, time_point now) {
  const auto lane_tensors = std::move(message).take_lane_tensors();
  auto payload = std::move(message).bytes();
  if (auto problem = check_size(payload.size(), lane_tensors, priority))
    return problem;
  // A frame that the channel rejects is destroyed. So the payload is copied
  // first if the message may have to wait in the backlog.
  if (backlog_.empty()) {
    auto copy = must_deliver() ? payload : std::vector<std::byte>{};
    if (send_frame(net::frame_kind::oneway, priority, std::move(payload),
                   lane_tensors))
      return {};
    payload = std::move(copy);
    retry_at_ = now + options_.retry_interval;
  }
  if (!must_deliver() && channel_.has_ended())
    return caf::make_error(ec::peer_lost, std::string{"the channel has ended"});
  if (backlog_.size() >= options_.backlog)
    return caf::make_error(ec::busy, must_deliver()
                                       ? "the channel accepts no more frames, "
                                         "and "
                                           + std::to_string(backlog_.size())
                                           + " messages are waiting already"
                                       : std::string{"the channel accepts no "
                                                     "more frames"});
  backlog_.push_back({priority, std::move(payload), lane_tensors});
  return {};
}

caf::error proxy_core::loss_of(const std::string& message,
                               const wire::wire_error& problem) const {
  return caf::make_error(problem.code,
                         text_of_loss(message, options_.target, problem.text));
}

void proxy_core::log_loss(const std::string& message,
                          const wire::wire_error& problem, time_point now) {
  ++losses_;
  if (next_warning_ && now < *next_warning_)
    return;
  next_warning_ = now + warning_interval;
  const auto count = std::exchange(losses_, 0);
  (options_.log ? options_.log : net::log_function{log_of_connections})(
    net::severity::warning,
    text_of_loss(message, options_.target, problem.text)
      + (count == 1 ? ""
                    : "; " + std::to_string(count)
                        + " messages to it were lost since the last warning"));
}

void proxy_core::send_request(wire::message_writer&& message,
                              net::priority priority, time_point now,
                              caf::response_promise promise,
                              response_reader read) {
  if (pending_end_)
    return promise.deliver(pending_end_->for_requests);
  if (pending_.size() >= options_.window)
    return promise.deliver(
      caf::make_error(ec::busy, std::to_string(pending_.size())
                                  + " requests are open already"));
  auto lane_tensors = std::move(message).take_lane_tensors();
  auto payload = std::move(message).bytes();
  if (auto problem = check_size(payload.size(), lane_tensors, priority))
    return promise.deliver(std::move(problem));
  if (!backlog_.empty() // a request must not overtake oneway messages
      || !send_frame(net::frame_kind::request, priority, std::move(payload),
                     std::move(lane_tensors))) {
    if (!channel_.has_ended())
      return promise.deliver(caf::make_error(
        ec::busy, std::string{"the channel accepts no more frames"}));
    ++last_tag_; // not sent: it fails when this proxy hears of the end
  }
  pending_.emplace(last_tag_, pending_request{std::move(promise), read,
                                              now + options_.request_timeout});
}

caf::error proxy_core::nonserializable_error(std::string_view type) {
  return caf::make_error(ec::invalid, "a " + std::string{type}
                                        + " cannot leave its process");
}

caf::error proxy_core::on_frame(net::frame& frame) {
  if (frame.view_id != options_.view_id) { // ignore frames of another view
    channel_.drop(std::move(frame));
    return {};
  }
  channel_.add(std::move(frame));
  return handle_messages();
}

caf::error proxy_core::on_tensors(arrived_tensors& arrived) {
  channel_.add(std::move(arrived));
  return handle_messages();
}

/// Handles the messages that are complete, and the end if no other message
/// waits.
caf::error proxy_core::handle_messages() {
  while (auto message = channel_.next()) {
    channel_.consumed(message->frame.priority);
    auto error = on_message(*message);
    channel_.release(message->transfer);
    if (error)
      return error;
  }
  if (pending_end_ && !channel_.is_waiting())
    return end_now(*pending_end_);
  return {};
}

caf::error proxy_core::on_message(received_message& message) {
  switch (message.frame.kind) {
    case net::frame_kind::response:
    case net::frame_kind::error:
      end_error_ = on_response(message);
      break;
    case net::frame_kind::terminated:
      return on_terminated(message.frame);
    case net::frame_kind::oneway:
    case net::frame_kind::request:
      end_error_ = caf::make_error(
        ec::protocol, std::string{"a proxy received a request or a "
                                  "oneway message"});
  }
  return end_error_;
}

/// Completes the request to which a response or an error frame belongs.
/// @returns an error if the peer violated the protocol.
caf::error proxy_core::on_response(received_message& message) {
  const auto& frame = message.frame;
  const auto it = pending_.find(frame.tag);
  if (it == pending_.end())
    return {}; // late or duplicate
  auto request = std::move(it->second);
  pending_.erase(it);
  wire::message_reader in{frame.payload, std::move(message.lane_tensors)};
  if (frame.kind == net::frame_kind::response) {
    auto values = request.read(in);
    if (!in.finish())
      request.promise.deliver(std::move(values));
  } else if (wire::wire_error remote_error;
             !in(remote_error.code, remote_error.text).finish()) {
    request.promise.deliver(wire::from_wire(remote_error));
  }
  const auto fault = in.finish();
  if (!fault)
    return {};
  auto error =
    caf::make_error(ec::protocol, "malformed response: " + to_string(*fault));
  request.promise.deliver(error);
  return error;
}

caf::error proxy_core::on_terminated(const net::frame& frame) {
  wire::wire_error error;
  if (const auto fault = net::decode(frame.payload, error.code, error.text))
    error = {ec::protocol, "malformed termination: " + to_string(*fault)};
  const auto reason = wire::from_wire(error);
  if (error.code == ec::cancelled) // the role was stopped on purpose
    return on_end({reason, caf::exit_reason::user_shutdown});
  return on_end({reason, reason});
}

caf::error proxy_core::on_channel_closed(const channel_closed& end) {
  const bool process_ended = end.code == ec::peer_lost
                             && !options_.process.empty()
                             && end.reason != options_.own_close_reason;
  const auto reason = caf::make_error(
    end.code, process_ended
                ? "the process of " + options_.process + " ended: " + end.reason
                : end.reason);
  return on_end({reason, reason});
}

caf::error proxy_core::on_lane_ended(const lane_ended& end) {
  channel_.end_lane();
  if (end.code != ec::protocol) // the channel reports why the connection ends
    return handle_messages();
  const auto reason = caf::make_error(end.code, end.reason);
  return end_now({reason, reason});
}

/// Ends the proxy when no response waits for its tensors. The first end counts.
caf::error proxy_core::on_end(end_of_role&& end) {
  if (!channel_.is_waiting())
    return end_now(pending_end_ ? *pending_end_ : end);
  if (!pending_end_)
    pending_end_ = std::move(end);
  return {};
}

caf::error proxy_core::end_now(const end_of_role& end) {
  end_error_ = end.for_requests;
  return end.reason;
}

void proxy_core::expire(time_point now) {
  while (!backlog_.empty()) {
    auto& first = backlog_.front();
    if (!send_frame(net::frame_kind::oneway, first.priority,
                    std::vector{first.payload}, first.lane_tensors)) {
      retry_at_ = now + options_.retry_interval;
      break;
    }
    backlog_.pop_front();
  }
  while (!pending_.empty() && pending_.begin()->second.deadline <= now) {
    auto expired = std::move(pending_.begin()->second);
    pending_.erase(pending_.begin());
    expired.promise.deliver(caf::make_error(
      ec::stalled,
      "no response within " + std::to_string(request_timeout_ms()) + " ms"));
  }
}

std::optional<proxy_core::time_point> proxy_core::next_deadline() const {
  std::optional<time_point> due;
  if (!pending_.empty())
    due = pending_.begin()->second.deadline;
  if (!backlog_.empty() && (!due || retry_at_ < *due))
    due = retry_at_;
  return due;
}

} // namespace troupe
