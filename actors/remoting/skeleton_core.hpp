#pragma once

#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <array>
#include <bitset>
#include <chrono>
#include <set>

namespace troupe {

struct skeleton_options {
  /// Maximum timeout of the role's response; the proxy's timeout may be less.
  std::chrono::milliseconds request_timeout{5000};
  /// Maximum number of open requests; further ones fail as `busy`.
  std::size_t window = 256;
  /// Membership view of the role; requests of another view fail as
  /// `superseded`. The rendezvous assigns it. Zero between a client and a node.
  std::uint64_t view_id = 0;
};

/// Finds duplicates among the last 1,024 tags.
class duplicate_filter {
public:
  /// @returns false if the tag was added before, or is older than the window.
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

  /// Checks the tag and the view of a frame.
  /// @returns true if the frame is of this view and no duplicate. An accepted
  ///          oneway message uses a credit of the channel until the role has
  ///          read it, which bounds the mailbox of a busy role.
  bool accept_frame(const net::frame& frame);

  /// A oneway message was sent to the role.
  /// @returns true if the role must be asked for a receipt now.
  bool on_oneway_delivered(net::priority priority);
  /// A receipt is requested: the role confirms that it has read all messages
  /// that were sent to it before.
  void begin_receipt();
  /// The receipt has arrived. @returns true if another must be requested now.
  bool on_receipt();

  /// The peer violated the protocol.
  /// @returns the reason with which the skeleton must terminate.
  caf::error report_violation(const net::frame& frame,
                              const std::string& reason);

  /// The role has terminated.
  /// @returns the reason with which the skeleton must terminate.
  caf::error on_role_lost(const caf::error& reason, caf::actor_system& sys);

  /// Begins a request.
  /// @returns false if too many are open; the request then fails as `busy`.
  bool begin_request(const net::frame& frame);
  void respond(std::uint64_t tag, net::writer&& response,
               net::priority priority);
  void fail_request(std::uint64_t tag, const wire::wire_error& reason);

  /// Timeout of a request for which the proxy waits `asked_ms` milliseconds.
  std::chrono::milliseconds timeout_of(std::uint32_t asked_ms) const;

protected:
  /// Timeout of a receipt; then another one is requested.
  static constexpr std::chrono::seconds receipt_timeout{5};

private:
  bool is_receipt_due(net::priority priority) const;
  void send_frame(net::frame_kind kind, net::priority priority,
                  std::uint64_t tag, net::writer&& response);
  void send_terminated(const wire::wire_error& reason);

  std::shared_ptr<net::channel> channel_;
  skeleton_options options_;
  /// By priority, since one priority overtakes the other.
  duplicate_filter duplicates_[2];
  std::set<std::uint64_t> open_requests_; ///< Tags of the open requests.
  /// By priority: oneway messages that the role has not confirmed as read.
  std::array<std::size_t, 2> unread_{};
  /// By priority: the part of `unread_` that the pending receipt confirms.
  std::array<std::size_t, 2> in_receipt_{};
  bool receipt_pending_ = false; ///< True while a receipt is pending.
};

} // namespace troupe
