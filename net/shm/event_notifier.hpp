#pragma once

#include "troupe/net/base/descriptor.hpp"

namespace troupe::net {

/// Lets peers wake the thread that waits on the lanes of this process. All
/// lanes of a process share one notifier, and one thread at a time waits. The
/// notifier is a pair of connected sockets. Peers hold the notifying end; only
/// this process holds the waiting end.
class event_notifier {
public:
  /// @errors throws std::runtime_error when the process has no descriptor left.
  event_notifier();

  /// Returns the notifying end, the argument of `notify`. It may be sent to
  /// other processes.
  int descriptor() const { return notify_end_.get(); }
  /// Returns the waiting end. It is readable while the event is set.
  int wait_descriptor() const { return wait_end_.get(); }

  /// To be called before each wait. Otherwise the `clear` after the wait has no
  /// effect.
  void arm() { armed_ = true; }

  /// Clears the event if `arm` was called since the last `clear`. The caller
  /// then checks again each condition that it waits for.
  void clear();

private:
  net::descriptor notify_end_, wait_end_;
  bool armed_ = false;
};

/// True if the descriptor is a Unix stream socket, for which `notify` never
/// blocks.
bool is_event_notifier(int descriptor);

/// Sets the event of the notifier whose notifying end is the descriptor. It
/// never blocks, even if another process changes flags of the socket or fills
/// its buffer.
void notify(int descriptor);

} // namespace troupe::net
