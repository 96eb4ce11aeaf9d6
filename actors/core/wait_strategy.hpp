#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace troupe {

/// How a thread that is no actor waits for actors. In a program it sleeps; in
/// the simulator it is what lets them run.
class waiter {
public:
  virtual ~waiter() = default;

  /// Waits until `done` holds.
  /// @param hold  locked; let go of while waiting, and held for `done`.
  /// @returns false if `done` did not come to hold within `patience`.
  virtual bool wait(std::unique_lock<std::mutex>& hold,
                    const std::function<bool()>& done,
                    std::chrono::milliseconds patience) = 0;

  /// What `done` asks for may have changed; from any thread.
  virtual void notify() = 0;
};

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
