#pragma once

#include "troupe/net/base/descriptor.hpp"

namespace troupe::net {

/// Wakes the thread that waits on the lanes of its process; one thread waits at
/// a time. All lanes of a process share one notifier. It is a pair of connected
/// sockets: other processes hold the notifying end, only the owner holds the
/// waiting end.
class bell {
public:
  /// @errors throws std::runtime_error when the process has no descriptor left.
  bell();

  /// The end for `notify`, which may be passed to other processes.
  int descriptor() const { return ringing_.get(); }
  /// The end to wait on: it is readable when the event is set.
  int listener() const { return listening_end_.get(); }

  /// Called before a wait: the next `clear` reads the socket.
  void listen() { listening_ = true; }

  /// Clears the event. No effect unless armed. Re-check every condition
  /// afterwards.
  void silence();

private:
  net::descriptor ringing_, listening_end_;
  bool listening_ = false;
};

/// True if the descriptor can be passed to `notify`, which then never blocks.
bool is_bell(int descriptor);

/// Sets the event of the notifier behind a descriptor, from any process. It
/// never blocks, whatever other holders of the descriptor do with it.
void ring(int descriptor);

} // namespace troupe::net
