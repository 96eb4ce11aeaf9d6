#pragma once

#include "troupe/net/base/descriptor.hpp"

namespace troupe::net {

/// Wakes the one thread of a process that sleeps on its lanes. All lanes of a
/// process share one bell. It is a pair of connected sockets: other processes
/// hold the end that rings, and nobody else holds the end that listens.
class bell {
public:
  /// @errors throws std::runtime_error when the process has no descriptor left.
  bell();

  /// The end for `ring`, which may be passed to other processes.
  int descriptor() const { return ringing_.get(); }
  /// The end to sleep on: it can be read when the bell was rung.
  int listener() const { return listening_end_.get(); }

  /// Somebody is about to sleep: the next `silence` has something to do.
  void listen() { listening_ = true; }

  /// Forgets who rang; to be followed by a look at everything rung for.
  void silence();

private:
  net::descriptor ringing_, listening_end_;
  bool listening_ = false;
};

/// Whether it can be passed to `ring`, which then never blocks.
bool is_bell(int descriptor);

/// Rings the bell behind a descriptor, from any process. It never blocks,
/// whatever other holders of the descriptor do with it.
void ring(int descriptor);

} // namespace troupe::net
