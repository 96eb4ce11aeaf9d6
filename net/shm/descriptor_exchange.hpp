#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <array>
#include <cstddef>
#include <string>

// Passes descriptors between two processes of one host and one user.

namespace troupe::net {

/// Descriptors that were received from the peer: its segment, its notifier, and
/// its arena if it has one.
struct received_descriptors {
  descriptor segment, notifier, arena;
};

/// Descriptors of this process that are sent to the peer; the caller keeps them
/// open.
struct descriptor_set {
  int segment = -1, notifier = -1;
  int arena = -1; ///< -1: none.
};

using exchange_token = std::array<std::byte, 32>;

/// A Unix socket under a random abstract name. It accepts a peer only if the
/// peer runs as this user and knows the token. It never blocks.
/// @errors all functions throw std::runtime_error with a sentence.
class descriptor_acceptor {
public:
  descriptor_acceptor();

  const std::string& name() const { return name_; }
  const exchange_token& token() const { return token_; }

  /// Accepts the peer, sends it this process's descriptors and returns the
  /// peer's.
  /// Other connections are closed.
  /// @pre the peer has reported that it connected.
  received_descriptors accept(const descriptor_set& own) const;

private:
  std::string name_;
  exchange_token token_;
  descriptor listening_socket_;
};

/// The connecting side. The constructor connects and sends the token and the
/// descriptors.
class descriptor_connector {
public:
  descriptor_connector(const std::string& name, const exchange_token& token,
                       const descriptor_set& own);

  /// @pre the acceptor has reported that it accepted.
  received_descriptors receive() const;

private:
  exchange_token token_;
  descriptor socket_;
};

} // namespace troupe::net
