#pragma once

#include "troupe/net/session/hello.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::net {

inline constexpr std::uint8_t handshake_version = 1;
/// Maximum size of an encoded hello or hello response in bytes.
inline constexpr std::size_t max_hello_bytes = std::size_t{64} * 1024;
inline constexpr std::size_t nonce_size = 32;
using nonce = std::array<std::byte, nonce_size>;
/// 32 bytes that an acceptor sends in place of its proof if the dialer's proof
/// is wrong. They are the same in each handshake, so a peer without the secret
/// learns only that its proof is wrong.
inline constexpr std::string_view wrong_secret_verdict =
  "troupe-1 the secrets differ     ";

/// @errors throws std::runtime_error if no random bytes are available.
nonce random_nonce();

/// Authenticates two processes over a new stream. This state machine has no
/// sockets and no clock: its caller passes received bytes to it, and sends the
/// bytes that it returns. docs/wire.md has the grammar.
///
///   who      a dialer and an acceptor; each draws a new nonce
///   messages greeting: version, whether a secret is required, nonce
///            proof, only with a secret: HMAC over both nonces
///            message: the dialer's hello, the acceptor's response; with a
///            secret an HMAC over the message (its seal) follows
///   start    the dialer sends its greeting
///   on greeting  the acceptor sends its greeting; the dialer sends its proof
///                and its message
///   on proof     must be the HMAC over both nonces and a label that names the
///                side of the sender
///   on hello     the acceptor waits until its owner calls `respond`; then it
///                sends its proof and the response
///   on response  the dialer is done
///   end      accepted, rejected or failed; bytes after the last message are
///            for the next user of the stream
///   cost     before it verifies the proof, a side reads at most 40 + 32 bytes:
///            the greeting and the proof
///   faults   different versions -> both sides reject; the acceptor first sends
///            its greeting, so that the dialer learns the acceptor's version
///            only one side has a secret -> both sides end as `wrong_secret`;
///            the acceptor first sends its greeting, so that the dialer learns
///            that the acceptor requires a secret or has none
///            the dialer's proof is wrong -> the acceptor sends
///            `wrong_secret_verdict` in place of its proof, and both sides end
///            as `wrong_secret`
///            the acceptor's proof is wrong -> the dialer ends as
///            `wrong_secret`, and sends nothing more
class handshake {
public:
  enum class side : std::uint8_t { dialer, acceptor };
  enum class state : std::uint8_t {
    in_progress, ///< The handshake waits for bytes, or has bytes to send.
    /// The acceptor has received the hello and waits for `respond`.
    awaiting_decision,
    /// The handshake has succeeded. `unsent` may still hold bytes of it.
    accepted,
    /// The acceptor has rejected the hello, or the versions differ. Both sides
    /// know the reason.
    rejected,
    /// The secrets differ, or only one side has a secret. Both sides know this,
    /// unless the acceptor sent a wrong proof. A new attempt would end alike.
    wrong_secret,
    failed, ///< The handshake has failed. Only this side knows the reason.
  };

  /// @param own_hello hello that a dialer sends. An acceptor ignores it. @pre
  ///                  `fits(own_hello)`.
  handshake(side own_side, std::string secret, const nonce& own_nonce,
            hello own_hello = {});

  static bool fits(const hello& x);

  state current() const { return state_; }
  const std::string& reason() const { return reason_; }

  /// Returns the maximum number of bytes that `receive` accepts now. Zero: the
  /// handshake does not wait for bytes.
  std::size_t bytes_wanted() const;

  /// Processes received bytes. @pre `bytes` has at most `bytes_wanted()` bytes.
  void receive(std::span<const std::byte> bytes);

  /// Returns bytes that the caller has to send, also when the handshake has
  /// ended.
  std::span<const std::byte> unsent() const;
  void sent(std::size_t bytes);

  /// Accepts or rejects the hello. A response of more than `max_hello_bytes`
  /// becomes a rejection. @pre the state is `awaiting_decision`.
  void respond(hello_response response);

  /// Returns the hello of the peer. Empty: it has not arrived yet.
  const hello& peer() const { return peer_hello_; }
  /// Returns the payload of the response. @pre this side is the dialer and has
  /// received the response.
  const std::vector<std::byte>& payload() const { return payload_; }

private:
  enum class stage : std::uint8_t { greeting, proof, length, message };
  void expect(stage next_stage, std::size_t bytes);
  void on_greeting();
  void on_proof();
  void on_length();
  void on_message();
  void read_message(std::span<const std::byte> body);
  void greet();
  void send_message(std::span<const std::byte> body);
  void fail(std::string reason);
  void end_as_wrong_secret(const std::string& problem);
  side peer_side() const;
  std::size_t seal_size() const;

  side side_;
  std::string secret_;
  nonce own_nonce_, peer_nonce_{};
  hello own_hello_, peer_hello_;
  std::vector<std::byte> payload_;
  state state_ = state::in_progress;
  std::string reason_;
  stage stage_ = stage::greeting;
  /// Size in bytes of the greeting, proof, length or message that `stage_`
  /// names. It is complete when `received_` has this size.
  std::size_t awaited_bytes_ = 0;
  std::vector<std::byte> received_, output_;
  std::size_t sent_ = 0;
};

} // namespace troupe::net
