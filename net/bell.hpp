#pragma once

#include "troupe/net/descriptor.hpp"

namespace troupe::net {

/// Wakes the one thread of a process that sleeps on its lanes; whoever may ring
/// holds a copy of the descriptor. All lanes of a process share one.
class bell {
public:
  /// @errors throws std::runtime_error when the process has no descriptor left.
  bell();

  int descriptor() const { return fd_.get(); }

  /// Somebody is about to sleep: the next `silence` has something to do.
  void listen() { listening_ = true; }

  /// Forgets who rang; to be followed by a look at everything rung for.
  void silence();

private:
  net::descriptor fd_;
  bool listening_ = false;
};

/// Rings the bell behind an eventfd, from any process.
void ring(int descriptor);

} // namespace troupe::net
