#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace troupe {

/// How a thread that is not an actor waits for actors. In a program the thread
/// blocks; in the simulator the wait runs the actors.
class waiter {
public:
  virtual ~waiter() = default;

  /// Waits until `done` holds.
  /// @param lock a held lock. It is released while waiting and held while
  ///             `done` is called.
  /// @returns false if `done` did not hold within `timeout`.
  virtual bool wait(std::unique_lock<std::mutex>& hold,
                    const std::function<bool()>& done,
                    std::chrono::milliseconds patience) = 0;

  /// Makes the waiting thread call `done` again. May be called from any thread.
  virtual void notify() = 0;
};

/// Blocks on a condition variable.
class sleeping_waiter final : public waiter {
public:
  bool wait(std::unique_lock<std::mutex>& hold,
            const std::function<bool()>& done,
            std::chrono::milliseconds patience) override {
    return news_.wait_for(hold, patience, done);
  }
  void notify() override { news_.notify_all(); }

private:
  std::condition_variable news_;
};

} // namespace troupe
