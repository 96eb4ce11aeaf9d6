#pragma once

#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <array>
#include <bitset>
#include <chrono>
#include <set>

namespace troupe {

struct gateway_options {
  /// Longest that the role may take for an answer, if the asker waits so long.
  std::chrono::milliseconds patience{5000};
  /// Requests that the role may owe an answer to; one more is `busy`.
  std::size_t window = 256;
  std::uint64_t epoch = 0; ///< Of the membership.
};

/// Which of the last thousand numbers came already.
class seen_tags {
public:
  /// @returns false if it came before, or is so old that nobody knows.
  bool add(std::uint64_t tag);

private:
  static constexpr std::size_t window = 1024;
  std::uint64_t newest_ = 0;
  std::bitset<window> seen_;
};

/// What every gateway does, whatever its role.
class gateway_core {
public:
  ~gateway_core();

  void open(std::shared_ptr<net::link> out, const gateway_options& options);

  /// Whether a frame is to be looked at: of this epoch, for the first time.
  /// Such a fact counts against the link's credits until the role has read it:
  /// so a role that is busy has no more facts in its mailbox than the link has
  /// credits.
  bool admit(const net::frame& x);

  /// A fact went to the role. @returns whether the role must be asked now how
  /// far it has read.
  bool handed_on(net::priority how);
  /// The question goes to the role, behind the facts that went before.
  void begin_receipt();
  /// The role has come to the question. @returns whether to ask anew.
  bool on_receipt();

  /// The peer broke the rules. @returns what to quit with.
  caf::error accuse(const net::frame& x, const std::string& why);

  /// The role ended. @returns what to quit with.
  caf::error on_role_lost(const caf::error& why, caf::actor_system& sys);

  /// @returns false if too many are open; the asker hears `busy`.
  bool begin(const net::frame& x);
  void succeed(std::uint64_t tag, net::writer&& answer, net::priority how);
  void fail(std::uint64_t tag, const wire::failure_note& why);

  std::chrono::milliseconds patience(std::uint32_t asked_ms) const;

protected:
  /// Longest that a question waits for its answer; then another is asked.
  static constexpr std::chrono::seconds receipt_timeout{5};

private:
  bool is_due(net::priority how) const;
  void post(net::frame_kind kind, net::priority how, std::uint64_t tag,
            net::writer&& x);
  void say_gone(const wire::failure_note& why);

  std::shared_ptr<net::link> out_;
  gateway_options options_;
  seen_tags seen_[2]; ///< By priority: one overtakes the other.
  std::set<std::uint64_t> open_;
  std::array<std::size_t, 2> unread_{}; ///< Facts with the role, by priority.
  std::array<std::size_t, 2> asked_{};  ///< Of these: before the question.
  bool asking_ = false;                 ///< A question is under way.
};

} // namespace troupe
