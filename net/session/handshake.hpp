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
inline constexpr std::size_t most_hello_bytes = std::size_t{64} * 1024;
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
    speaking, ///< Waits for bytes, or has bytes to send.
    asked,    ///< An acceptor has the hello and waits for `respond`.
    /// The handshake succeeded; `unsent` may still hold its last bytes.
    taken,
    /// The response or the version rejects; the reason is for both sides.
    refused,
    failed, ///< The reason is for this side's log only.
  };

  /// @param own_hello the dialer's hello; unused by an acceptor. @pre
  ///                  `fits(own_hello)`.
  handshake(side at, std::string secret, const nonce& mine, hello own = {});

  static bool fits(const hello& x);

  state now() const { return state_; }
  const std::string& why() const { return why_; }

  /// @returns the number of bytes that `receive` accepts now. Zero: it does not
  ///          wait for bytes.
  std::size_t wants() const;

  /// Processes received bytes. @pre no more than it waits for.
  void take(std::span<const std::byte> bytes);

  /// Bytes to be sent, also after the end.
  std::span<const std::byte> unsent() const;
  void sent(std::size_t bytes);

  /// Decides on the hello. A response that exceeds the limit becomes a
  /// rejection. @pre awaiting a decision.
  void answer(verdict x);

  /// Hello of the other side. Empty before a hello or a response has arrived.
  const hello& peer() const { return peer_; }
  /// Payload of the response. @pre this is a dialer that has the response.
  const std::vector<std::byte>& note() const { return note_; }

private:
  enum class part : std::uint8_t { greeting, proof, length, letter };
  void expect(part what, std::size_t bytes);
  void on_greeting();
  void on_proof();
  void on_length();
  void on_letter();
  void read_letter(std::span<const std::byte> body);
  void greet();
  void send_letter(std::span<const std::byte> body);
  void fail(std::string why);
  side other() const;
  std::size_t seal_size() const;

  side at_;
  std::string secret_;
  nonce mine_, theirs_{};
  hello own_, peer_;
  std::vector<std::byte> note_;
  state state_ = state::speaking;
  std::string why_;
  part part_ = part::greeting;
  std::size_t awaited_ = 0; ///< Bytes of the current stage.
  std::vector<std::byte> in_, out_;
  std::size_t sent_ = 0;
};

} // namespace troupe::net
