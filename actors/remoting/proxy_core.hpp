#pragma once

#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/actor_clock.hpp>
#include <caf/response_promise.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <vector>

namespace troupe {

struct proxy_options {
  /// Timeout of a response.
  std::chrono::milliseconds request_timeout{5000};
  /// Maximum number of open requests; further ones fail as `busy`.
  std::size_t window = 256;
  /// Membership view that all frames carry; frames of another view are ignored.
  /// The rendezvous assigns it. Zero between a client and a node.
  std::uint64_t view_id = 0;
  /// Maximum number of oneway messages that wait while the channel accepts no
  /// more frames. Zero: such a message fails as `busy`, unnoticed by a sender
  /// that made no request. Otherwise no message is lost silently: one that
  /// exceeds the backlog or can never be sent terminates the proxy with the
  /// reason.
  std::size_t backlog = 0;
  /// Time between two attempts to send the messages of the backlog.
  std::chrono::milliseconds retry_interval{2};
};

/// The part of a proxy that does not depend on its role.
class proxy_core {
public:
  using time_point = caf::actor_clock::time_point;

  /// Decodes a response and delivers it if it is complete.
  using response_reader = void (*)(caf::response_promise&, net::reader&);

  ~proxy_core();

  void open(std::shared_ptr<net::channel> channel,
            const proxy_options& options);

  /// Sends a oneway message or puts it into the backlog.
  /// @returns the reason if it did neither.
  caf::error send_oneway(net::writer&& message, net::priority priority,
                         time_point now);

  /// True if a oneway message that cannot be sent terminates the proxy.
  bool must_deliver() const { return options_.backlog > 0; }

  /// Sends a request. The promise gets the response, or an error: immediately,
  /// at the deadline, or when the channel closes.
  void send_request(net::writer&& message, net::priority priority,
                    time_point now, caf::response_promise promise,
                    response_reader read);

  /// @returns the error for a type that cannot be sent to another process.
  caf::error nonserializable_error(std::string_view type);

  /// Handles a frame or the end of the channel.
  /// @returns the reason with which the proxy must terminate, or none.
  caf::error on_frame(const net::frame& frame);
  caf::error on_channel_closed(const channel_closed& end);

  /// Sends messages of the backlog until the channel accepts no more frames,
  /// and fails the requests whose timeout has elapsed.
  void expire(time_point now);

  /// Time of the next call of `expire`. Nullopt: no request is open and the
  /// backlog is empty.
  std::optional<time_point> next_deadline() const;

  std::uint32_t request_timeout_ms() const;

  /// Time of the scheduled timer. Nullopt: none is scheduled.
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
  };
  caf::error check_size(std::size_t bytes, net::priority priority) const;
  bool send_frame(net::frame_kind kind, net::priority priority,
                  std::vector<std::byte>&& payload);
  caf::error on_response(const net::frame& frame);
  caf::error on_terminated(const net::frame& frame);

  std::shared_ptr<net::channel> channel_;
  proxy_options options_;
  std::uint64_t last_tag_ = 0;
  /// Open requests by tag. Tags grow, so the order is also by deadline.
  std::map<std::uint64_t, pending_request> pending_;
  std::deque<backlog_entry> backlog_; ///< In the order of arrival.
  time_point retry_at_{}; ///< Next attempt to send messages of the backlog.
  caf::error end_error_;  ///< Error of the requests open at the end.
};

} // namespace troupe
