#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <array>
#include <cstddef>
#include <string>

// How two processes of one host and one user hand each other descriptors.

namespace troupe::net {

/// What one process passes to another: its segment, how to wake it, and, if it
/// has one, its arena.
struct passed {
  descriptor memory, bell, arena;
};

/// The same where it is kept.
struct offered {
  int memory = -1, bell = -1;
  int arena = -1; ///< None.
};

using meeting_token = std::array<std::byte, 32>;

/// A Unix socket under a random abstract name, where only he is welcome who is
/// of the same user and knows the token. It never blocks.
/// @errors everything throws std::runtime_error with a sentence.
class meeting_place {
public:
  meeting_place();

  const std::string& name() const { return name_; }
  const meeting_token& token() const { return token_; }

  /// Sends strangers away. @pre the visitor said that he is there.
  passed welcome(const offered& mine) const;

private:
  std::string name_;
  meeting_token token_;
  descriptor listener_;
};

/// The visitor's side, at the moment that he says that he is there.
class visit {
public:
  visit(const std::string& name, const meeting_token& token,
        const offered& mine);

  /// @pre the host said that the visitor is welcome.
  passed received() const;

private:
  meeting_token token_;
  descriptor socket_;
};

} // namespace troupe::net
