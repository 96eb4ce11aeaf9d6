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
/// Most bytes of a hello or a verdict, as they lie on the wire.
inline constexpr std::size_t most_hello_bytes = std::size_t{64} * 1024;
inline constexpr std::size_t nonce_size = 32;
using nonce = std::array<std::byte, nonce_size>;

/// @errors throws std::runtime_error if there is no randomness.
nonce random_nonce();

/// How two processes meet on a fresh stream: bytes in, bytes out, no sockets
/// and no clock. docs/wire.md has the grammar.
///
///   who      a dialer and an acceptor, each with a fresh nonce
///   says     greeting (version, whether a secret is asked for, nonce); with a
///            secret a proof; a letter: the dialer's hello, the acceptor's
///            verdict, sealed if there is a secret
///   opens    the dialer greets
///   on greeting       acceptor greets back; dialer proves, sends its letter
///   on proof          must be the secret's over both nonces and the direction
///   on hello          the owner is asked, and calls `answer`
///   on verdict        the dialer is done
///   ends     done, refused, or failed; bytes after the end are not its own
///   costs    40 + 32 bytes are read before the secret is proven
///   if       another version     -> the acceptor still greets, both fail
///            a wrong proof, or none asked -> fails, and nothing is sent
class handshake {
public:
  enum class side : std::uint8_t { dialer, acceptor };
  enum class state : std::uint8_t {
    speaking, ///< Wants bytes, or has some to send.
    asked,    ///< An acceptor has the hello and waits for `answer`.
    taken,    ///< All is said; `unsent` may still hold the last of it.
    refused,  ///< By a verdict, or for another version; `why` is for people.
    failed,   ///< `why` is for this side's log only.
  };

  /// @param own of the dialer. @pre `fits(own)`.
  handshake(side at, std::string secret, const nonce& mine, hello own = {});

  static bool fits(const hello& x);

  state now() const { return state_; }
  const std::string& why() const { return why_; }

  /// How many bytes it can take now; none if it waits for something else.
  std::size_t wants() const;

  /// @pre no more than it wants.
  void take(std::span<const std::byte> bytes);

  /// What is to be sent, also after it has ended.
  std::span<const std::byte> unsent() const;
  void sent(std::size_t bytes);

  /// @pre asked. One that does not fit becomes a refusal.
  void answer(verdict x);

  /// What the other side says of itself. @pre asked, taken or refused.
  const hello& peer() const { return peer_; }
  /// Of the verdict. @pre taken.
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
  std::size_t awaited_ = 0; ///< Bytes of the part.
  std::vector<std::byte> in_, out_;
  std::size_t sent_ = 0;
};

} // namespace troupe::net
