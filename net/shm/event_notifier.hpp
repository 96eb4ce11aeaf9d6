#pragma once

#include "troupe/net/base/descriptor.hpp"

namespace troupe::net {

/// Wakes the thread that waits on the lanes of its process; one thread waits at
/// a time. All lanes of a process share one notifier. It is a pair of connected
/// sockets: other processes hold the notifying end, only the owner holds the
/// waiting end.
class event_notifier {
public:
  /// @errors throws std::runtime_error when the process has no descriptor left.
  event_notifier();

  /// The end for `notify`, which may be passed to other processes.
  int descriptor() const { return notify_end_.get(); }
  /// The end to wait on: it is readable when the event is set.
  int wait_descriptor() const { return wait_end_.get(); }

  /// Called before a wait: the next `clear` reads the socket.
  void arm() { armed_ = true; }

  /// Clears the event. No effect unless armed. Re-check every condition
  /// afterwards.
  void clear();

private:
  net::descriptor notify_end_, wait_end_;
  bool armed_ = false;
};

/// True if the descriptor can be passed to `notify`, which then never blocks.
bool is_event_notifier(int descriptor);

/// Sets the event of the notifier behind a descriptor, from any process. It
/// never blocks, whatever other holders of the descriptor do with it.
void notify(int descriptor);

} // namespace troupe::net
