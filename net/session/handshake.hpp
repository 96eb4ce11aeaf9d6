#pragma once

#include "troupe/net/session/hello.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::net {

inline constexpr std::uint8_t handshake_version = 1;
/// Maximum size of an encoded hello or hello response.
inline constexpr std::size_t max_hello_bytes = std::size_t{64} * 1024;
inline constexpr std::size_t nonce_size = 32;
using nonce = std::array<std::byte, nonce_size>;

/// @errors throws std::runtime_error if the system has no random bytes.
nonce random_nonce();

/// Authenticates two processes over a new stream. A pure state machine: bytes
/// in, bytes out, no sockets and no clock. docs/wire.md has the grammar.
///
///   who      a dialer and an acceptor, each with a new nonce
///   messages greeting (version, whether a secret is required, nonce); with a
///            secret a proof; a message: the dialer's hello, the acceptor's
///            response, sealed if there is a secret
///   start    the dialer sends its greeting
///   on greeting  the acceptor sends its greeting; the dialer sends its proof
///                and its message
///   on proof     must be the HMAC over both nonces and the direction
///   on hello     waits for the owner's decision: `respond`
///   on response  the dialer is done
///   end      accepted, rejected or failed; bytes after the end belong to the
///            stream's next user
///   cost     40 + 32 bytes are read before the secret is proven
///   faults   another version -> the acceptor still greets, both are rejected
///            a wrong proof, or only one side has a secret -> fails; nothing
///            more is sent
class handshake {
public:
  enum class side : std::uint8_t { dialer, acceptor };
  enum class state : std::uint8_t {
    in_progress,       ///< Waits for bytes, or has bytes to send.
    awaiting_decision, ///< An acceptor has the hello and waits for `respond`.
    /// The handshake succeeded; `unsent` may still hold its last bytes.
    accepted,
    /// The response or the version rejects; the reason is for both sides.
    rejected,
    failed, ///< The reason is for this side's log only.
  };

  /// @param own_hello the dialer's hello; unused by an acceptor. @pre
  ///                  `fits(own_hello)`.
  handshake(side own_side, std::string secret, const nonce& own_nonce,
            hello own_hello = {});

  static bool fits(const hello& x);

  state current() const { return state_; }
  const std::string& reason() const { return reason_; }

  /// Returns the number of bytes that `receive` accepts now. Zero: it does not
  /// wait for bytes.
  std::size_t bytes_wanted() const;

  /// Processes received bytes. @pre no more than it waits for.
  void receive(std::span<const std::byte> bytes);

  /// Bytes to be sent, also after the end.
  std::span<const std::byte> unsent() const;
  void sent(std::size_t bytes);

  /// Decides on the hello. A response that exceeds the limit becomes a
  /// rejection. @pre awaiting a decision.
  void respond(hello_response response);

  /// Hello of the other side. Empty before a hello or a response has arrived.
  const hello& peer() const { return peer_hello_; }
  /// Payload of the response. @pre this is a dialer that has the response.
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
  std::size_t awaited_bytes_ = 0; ///< Bytes of the current stage.
  std::vector<std::byte> received_, output_;
  std::size_t sent_ = 0;
};

} // namespace troupe::net
