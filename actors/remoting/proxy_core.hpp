#pragma once

#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_channel.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/base/log_function.hpp"

#include <caf/actor_clock.hpp>
#include <caf/response_promise.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct proxy_options {
  /// Timeout of a response.
  std::chrono::milliseconds request_timeout{5000};
  /// Maximum number of requests that wait for a response; more fail as `busy`.
  std::size_t window = 256;
  /// Number of the membership view, which every sent frame carries. Received
  /// frames of another view are ignored. The leader assigns this number; it
  /// is zero between a client and a node.
  std::uint64_t view_id = 0;
  /// Maximum number of oneway messages that wait while the channel accepts no
  /// more frames. Zero: no message waits. A message then fails as `busy`, the
  /// proxy logs a warning, and the sender gets the error if it sent the message
  /// by `request`. Above zero: no message is lost. The proxy terminates with an
  /// error if the backlog is full or a message can never be sent.
  std::size_t backlog = 0;
  /// Time between two attempts to send the messages of the backlog.
  std::chrono::milliseconds retry_interval{2};
  /// Text that names the role and its process in errors and in the log, such as
  /// "replica 3 of worker 1".
  std::string target = "a remote role";
  /// Name of the peer's process, such as "node 10.0.0.1:4100", which errors
  /// contain when this process ends. Empty: the errors contain only how the
  /// channel closed.
  std::string process{};
  /// Reason with which this process closes the channel. Such a close does not
  /// mean that the peer's process ended. Empty: there is no such reason.
  std::string own_close_reason{};
  /// Receives the warnings about lost messages. Null: `log_of_connections`.
  net::log_function log{};
  /// End of the tensors of the proxy's channel. Null: the connection has no
  /// lane, and all tensors are parts of frames.
  std::shared_ptr<tensor_channel> lane{};
};

/// The part of a proxy that does not depend on its role.
class proxy_core {
public:
  using time_point = caf::actor_clock::time_point;

  /// Reads the values of a response.
  using response_reader = caf::message (*)(wire::message_reader&);

  ~proxy_core();

  void open(std::shared_ptr<net::channel> channel,
            const proxy_options& options);

  /// True if large tensors of messages pass over a lane.
  bool uses_lane() const { return channel_.uses_lane(); }

  /// Sends a oneway message or puts it into the backlog.
  /// @returns an error if the proxy could do neither.
  caf::error send_oneway(wire::message_writer&& message, net::priority priority,
                         time_point now);

  /// Returns the error of a oneway message that was not sent, with the message
  /// and the role in its text.
  caf::error loss_of(const std::string& message,
                     const wire::wire_error& problem) const;

  /// Logs the loss of a oneway message as a warning, at most once in 10 s. The
  /// text contains the number of messages lost since the previous warning.
  void log_loss(const std::string& message, const wire::wire_error& problem,
                time_point now);

  /// True if a oneway message that cannot be sent terminates the proxy.
  bool must_deliver() const { return options_.backlog > 0; }

  /// Sends a request. The promise receives the response or an error. An error
  /// comes at once, at the deadline, or when the channel closes.
  void send_request(wire::message_writer&& message, net::priority priority,
                    time_point now, caf::response_promise promise,
                    response_reader read);

  /// Returns the error for a type that cannot be sent to another process.
  caf::error nonserializable_error(std::string_view type);

  /// Handles a frame, tensors of the lane, or the end of the channel or the
  /// lane. If the role or the channel ends while responses wait for their
  /// tensors, the proxy first delivers these responses.
  /// @returns the error with which the proxy must terminate. Empty: it
  ///          continues.
  caf::error on_frame(net::frame& frame);
  caf::error on_tensors(arrived_tensors& arrived);
  caf::error on_channel_closed(const channel_closed& end);
  caf::error on_lane_ended(const lane_ended& end);

  /// Sends messages of the backlog until the channel accepts no more frames,
  /// and fails the requests whose timeout has elapsed.
  void expire(time_point now);

  /// Returns the time at which `expire` must be called next. Nullopt: no
  /// request is open and the backlog is empty.
  std::optional<time_point> next_deadline() const;

  std::uint32_t request_timeout_ms() const;

  /// Time of the scheduled timer. Nullopt: no timer is scheduled.
  std::optional<time_point> next_timer;

private:
  struct pending_request {
    caf::response_promise promise;
    response_reader read;
    time_point deadline;
  };
  struct backlog_entry {
    net::priority priority;
    std::vector<std::byte> payload;
    tensors lane_tensors;
  };
  /// The end of the role or its channel.
  struct end_of_role {
    caf::error for_requests; ///< Error that open requests receive.
    caf::error reason;       ///< Error with which the proxy terminates.
  };
  caf::error check_size(std::size_t bytes, const tensors& lane_tensors,
                        net::priority priority) const;
  bool send_frame(net::frame_kind kind, net::priority priority,
                  std::vector<std::byte>&& payload, tensors lane_tensors);
  caf::error handle_messages();
  caf::error on_message(received_message& message);
  caf::error on_response(received_message& message);
  caf::error on_terminated(const net::frame& frame);
  caf::error on_end(end_of_role&& end);
  caf::error end_now(const end_of_role& end);

  message_channel channel_;
  proxy_options options_;
  std::uint64_t last_tag_ = 0;
  /// Open requests, in the order of their tags. The order of their deadlines is
  /// equal, because tags increase and all requests have the same timeout.
  std::map<std::uint64_t, pending_request> pending_;
  std::deque<backlog_entry> backlog_; ///< Unsent messages, oldest first.
  /// Time from which the next lost message is logged. Nullopt: none was lost.
  std::optional<time_point> next_warning_;
  std::size_t losses_ = 0; ///< Messages lost since the previous warning.
  time_point retry_at_{};  ///< Time of the next attempt to send the backlog.
  /// Error that open requests receive when the proxy ends.
  caf::error end_error_;
  /// The end that takes effect when no response waits for its tensors.
  std::optional<end_of_role> pending_end_;
};

} // namespace troupe
