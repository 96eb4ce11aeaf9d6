#pragma once

#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <array>
#include <bitset>
#include <chrono>
#include <set>

namespace troupe {

struct gateway_options {
  /// Maximum timeout of the role's response; the proxy's timeout may be less.
  std::chrono::milliseconds patience{5000};
  /// Maximum number of open requests; further ones fail as `busy`.
  std::size_t window = 256;
  /// Membership view of the role; requests of another view fail as
  /// `superseded`. The rendezvous assigns it. Zero between a client and a node.
  std::uint64_t epoch = 0;
};

/// Finds duplicates among the last 1,024 tags.
class seen_tags {
public:
  /// @returns false if the tag was added before, or is older than the window.
  bool add(std::uint64_t tag);

private:
  static constexpr std::size_t window = 1024;
  std::uint64_t newest_ = 0;
  std::bitset<window> seen_;
};

/// The part of a skeleton that does not depend on its role.
class gateway_core {
public:
  ~gateway_core();

  void open(std::shared_ptr<net::link> out, const gateway_options& options);

  /// Checks the tag and the view of a frame.
  /// @returns true if the frame is of this view and no duplicate. An accepted
  ///          oneway message uses a credit of the channel until the role has
  ///          read it, which bounds the mailbox of a busy role.
  bool admit(const net::frame& x);

  /// A oneway message was sent to the role.
  /// @returns true if the role must be asked for a receipt now.
  bool handed_on(net::priority how);
  /// A receipt is requested: the role confirms that it has read all messages
  /// that were sent to it before.
  void begin_receipt();
  /// The receipt has arrived. @returns true if another must be requested now.
  bool on_receipt();

  /// The peer violated the protocol.
  /// @returns the reason with which the skeleton must terminate.
  caf::error accuse(const net::frame& x, const std::string& why);

  /// The role has terminated.
  /// @returns the reason with which the skeleton must terminate.
  caf::error on_role_lost(const caf::error& why, caf::actor_system& sys);

  /// Begins a request.
  /// @returns false if too many are open; the request then fails as `busy`.
  bool begin(const net::frame& x);
  void succeed(std::uint64_t tag, net::writer&& answer, net::priority how);
  void fail(std::uint64_t tag, const wire::failure_note& why);

  /// Timeout of a request for which the proxy waits `asked_ms` milliseconds.
  std::chrono::milliseconds patience(std::uint32_t asked_ms) const;

protected:
  /// Timeout of a receipt; then another one is requested.
  static constexpr std::chrono::seconds receipt_timeout{5};

private:
  bool is_due(net::priority how) const;
  void post(net::frame_kind kind, net::priority how, std::uint64_t tag,
            net::writer&& x);
  void say_gone(const wire::failure_note& why);

  std::shared_ptr<net::link> out_;
  gateway_options options_;
  seen_tags seen_[2]; ///< By priority, since one priority overtakes the other.
  std::set<std::uint64_t> open_; ///< Tags of the open requests.
  /// By priority: oneway messages that the role has not confirmed as read.
  std::array<std::size_t, 2> unread_{};
  /// By priority: the part of `unread_` that the pending receipt confirms.
  std::array<std::size_t, 2> asked_{};
  bool asking_ = false; ///< True while a receipt is pending.
};

} // namespace troupe
