#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace troupe::net {

/// An event that occurs once, for which threads wait. Any thread may call its
/// functions.
class notification {
public:
  /// Reports the event. Further calls have no effect.
  void notify() {
    const std::lock_guard hold{lock_};
    notified_ = true;
    changed_.notify_all(); // with the lock: a waiting thread may destroy this
  }

  /// Waits for the event. Returns false if the timeout elapses first.
  bool wait_for(std::chrono::milliseconds timeout) {
    std::unique_lock hold{lock_};
    return changed_.wait_for(hold, timeout, [this] { return notified_; });
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool notified_ = false;
};

} // namespace troupe::net
