#pragma once

#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_channel.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/base/log_function.hpp"

#include <array>
#include <bitset>
#include <chrono>
#include <map>

namespace troupe {

struct skeleton_options {
  /// Timeout of the role's response. A shorter timeout of the proxy has
  /// priority.
  std::chrono::milliseconds request_timeout{5000};
  /// Maximum number of requests that wait for a response; more fail as `busy`.
  std::size_t window = 256;
  /// Number of the membership view of the role. Requests of another view fail
  /// as `superseded`. The leader assigns this number; it is zero between a
  /// client and a node.
  std::uint64_t view_id = 0;
  /// End of the tensors of the skeleton's channel. Null: the connection has no
  /// lane, and all tensors are parts of frames.
  std::shared_ptr<tensor_channel> lane{};
  /// Receives the warning about a response for which the channel was closed.
  /// Null: `log_of_connections`.
  net::log_function log{};
};

/// Finds repeated frames by their tags, the numbers that the proxy assigns. It
/// remembers the 1,024 latest tags.
class duplicate_filter {
public:
  /// Adds a tag. Returns false if the tag was added before, or is at least
  /// 1,024 below the highest tag.
  bool add(std::uint64_t tag);

private:
  static constexpr std::size_t window = 1024;
  std::uint64_t newest_ = 0;
  std::bitset<window> seen_;
};

/// The part of a skeleton that does not depend on its role.
class skeleton_core {
public:
  ~skeleton_core();

  void open(std::shared_ptr<net::channel> channel,
            const skeleton_options& options);

  /// Adds a frame of this view that is no duplicate. Drops other frames.
  void add(net::frame& frame);
  /// Adds tensors of the lane.
  void add(arrived_tensors& arrived);

  /// Returns the next message in order. Nullopt: none is complete. A oneway
  /// message uses a credit of the channel until the role has read it. This
  /// bounds the mailbox of a busy role.
  std::optional<received_message> next_message();

  /// Counts a oneway message that was sent to the role. By a receipt, the role
  /// confirms that it has read all messages that were sent to it before.
  /// @returns true if a receipt must be requested from the role now.
  bool on_oneway_delivered(const received_message& message);
  /// Notes that a request was sent to the role. The memory of its tensors is
  /// released when the role has read it: a role may answer later, for instance
  /// after further requests.
  /// @returns true if a receipt must be requested from the role now.
  bool on_request_delivered(const received_message& message);
  /// Notes that a receipt was requested.
  void begin_receipt();
  /// Handles the arrival of the receipt. Returns true if another receipt must
  /// be requested now.
  bool on_receipt();

  /// Tells the proxy that it violated the protocol.
  /// @returns the error with which the skeleton must terminate.
  caf::error report_violation(const net::frame& frame,
                              const std::string& reason);

  /// Tells the proxy that the role has terminated.
  /// @returns the error with which the skeleton must terminate.
  caf::error on_role_lost(const caf::error& reason, caf::actor_system& sys);

  /// Begins a request.
  /// @returns false if too many requests are open; the new request then fails
  ///          as `busy`.
  bool begin_request(const received_message& message);
  void respond(std::uint64_t tag, wire::message_writer&& response,
               net::priority priority);
  void fail_request(std::uint64_t tag, const wire::wire_error& reason);

  /// True if large tensors of responses pass over a lane.
  bool uses_lane() const { return channel_.uses_lane(); }

  /// Returns the timeout of the role's response to a request for which the
  /// proxy waits `asked_ms` milliseconds.
  std::chrono::milliseconds timeout_of(std::uint32_t asked_ms) const;

protected:
  /// Time after which a missing receipt is requested again.
  static constexpr std::chrono::seconds receipt_timeout{5};

private:
  void drop_other_view(net::frame& frame);
  bool is_receipt_due() const;
  bool is_receipt_due(net::priority priority) const;
  bool send_frame(net::frame_kind kind, net::priority priority,
                  std::uint64_t tag, wire::message_writer&& message);
  bool send_error(net::frame_kind kind, std::uint64_t tag,
                  const wire::wire_error& error);
  void close_channel(const std::string& reason);
  void send_terminated(const wire::wire_error& reason);

  message_channel channel_;
  skeleton_options options_;
  /// One filter per priority, because frames of one priority overtake frames of
  /// the other.
  duplicate_filter duplicates_[2];
  std::set<std::uint64_t> open_requests_; ///< The tags of the open requests.
  /// By priority: number of oneway messages that the role has not confirmed as
  /// read.
  std::array<std::size_t, 2> unread_{};
  /// By priority: the part of `unread_` that the pending receipt covers. A
  /// receipt is a request to the role; its response confirms that the role has
  /// read all messages before it.
  std::array<std::size_t, 2> in_receipt_{};
  /// Transfers of messages that the role has not confirmed as read, and those
  /// that the pending receipt covers.
  std::vector<std::uint64_t> unread_transfers_, transfers_in_receipt_;
  bool receipt_pending_ = false; ///< A receipt was requested.
};

} // namespace troupe
