#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <array>
#include <cstddef>
#include <string>

// Passes descriptors between two processes of one host and one user.

namespace troupe::net {

/// Descriptors that were received from the peer: its segment, its notifier, and
/// its arena if it has one.
struct passed {
  descriptor memory, bell, arena;
};

/// Descriptors of this process that are sent to the peer; the caller keeps them
/// open.
struct offered {
  int memory = -1, bell = -1;
  int arena = -1; ///< -1: none.
};

using meeting_token = std::array<std::byte, 32>;

/// A Unix socket under a random abstract name. It accepts a peer only if the
/// peer runs as this user and knows the token. It never blocks.
/// @errors all functions throw std::runtime_error with a sentence.
class meeting_place {
public:
  meeting_place();

  const std::string& name() const { return name_; }
  const meeting_token& token() const { return token_; }

  /// Accepts the peer, sends it this process's descriptors and returns the
  /// peer's.
  /// Other connections are closed.
  /// @pre the peer has reported that it connected.
  passed welcome(const offered& mine) const;

private:
  std::string name_;
  meeting_token token_;
  descriptor listener_;
};

/// The connecting side. The constructor connects and sends the token and the
/// descriptors.
class visit {
public:
  visit(const std::string& name, const meeting_token& token,
        const offered& mine);

  /// @pre the acceptor has reported that it accepted.
  passed received() const;

private:
  meeting_token token_;
  descriptor socket_;
};

} // namespace troupe::net
