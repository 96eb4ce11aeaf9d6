#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <array>
#include <cstddef>
#include <string>

// Passes file descriptors between two processes of one host and one user.

namespace troupe::net {

/// Descriptors that the peer has sent: its segment, its notifier and its arena.
/// An empty `arena`: the peer has no arena.
struct received_descriptors {
  descriptor segment, notifier, arena;
};

/// Descriptors that this process sends to the peer. The caller keeps them open.
struct descriptor_set {
  int segment = -1, notifier = -1;
  int arena = -1; ///< -1: this process has no arena.
};

using exchange_token = std::array<std::byte, 32>;

/// Listens on a Unix socket under a random abstract name. It accepts a peer
/// only if the peer runs as this user and knows the token. Its functions never
/// block.
/// @errors all functions throw std::runtime_error with a sentence.
class descriptor_acceptor {
public:
  descriptor_acceptor();

  const std::string& name() const { return name_; }
  const exchange_token& token() const { return token_; }

  /// Accepts the peer, sends it this process's descriptors, and returns the
  /// descriptors that the peer sent. It closes connections without the token.
  /// @pre the peer has reported that its `descriptor_connector` exists.
  received_descriptors accept(const descriptor_set& own) const;

private:
  std::string name_;
  exchange_token token_;
  descriptor listening_socket_;
};

/// Connects to a `descriptor_acceptor` of the peer. The constructor connects,
/// and sends the token and this process's descriptors. Its functions never
/// block.
/// @errors all functions throw std::runtime_error with a sentence.
class descriptor_connector {
public:
  descriptor_connector(const std::string& name, const exchange_token& token,
                       const descriptor_set& own);

  /// @pre the peer has reported that its `accept` has returned.
  received_descriptors receive() const;

private:
  exchange_token token_;
  descriptor socket_;
};

} // namespace troupe::net
