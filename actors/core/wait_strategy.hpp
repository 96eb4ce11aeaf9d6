#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace troupe {

/// How a thread that is not an actor waits for actors. In a program the thread
/// blocks. In the simulator the waiting thread runs the actors.
class wait_strategy {
public:
  virtual ~wait_strategy() = default;

  /// Waits until `done` returns true.
  /// @param lock lock that the caller holds. It is released during the wait and
  ///             held during calls of `done`.
  /// @returns false if `done` did not return true within `timeout`.
  virtual bool wait(std::unique_lock<std::mutex>& lock,
                    const std::function<bool()>& done,
                    std::chrono::milliseconds timeout) = 0;

  /// Makes the waiting thread call `done` again. May be called from any thread.
  virtual void notify() = 0;
};

/// Waits on a condition variable, which blocks the thread.
class blocking_wait_strategy final : public wait_strategy {
public:
  bool wait(std::unique_lock<std::mutex>& lock,
            const std::function<bool()>& done,
            std::chrono::milliseconds timeout) override {
    return notified_.wait_for(lock, timeout, done);
  }
  void notify() override { notified_.notify_all(); }

private:
  std::condition_variable notified_;
};

} // namespace troupe
