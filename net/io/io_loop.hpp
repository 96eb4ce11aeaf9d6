#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace troupe::net {

/// A thread that waits for descriptors and timers, and runs their handlers.
/// Handlers must not block or throw.
class io_loop {
public:
  io_loop();
  ~io_loop(); ///< Calls `stop`.
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// Runs a function on the loop's thread. Any thread may call `post`. If the
  /// loop has stopped, the function is destroyed and never runs.
  void post(std::function<void()> fn);

  /// True if the calling thread is the loop's thread.
  bool is_loop_thread() const;

  /// Stops the loop and joins its thread. Posted functions that have not run
  /// are destroyed. @pre not called on the loop's thread.
  void stop();

  struct core;

private:
  friend class descriptor_watcher;
  friend class timer;
  std::unique_ptr<core> core_;
};

/// Waits until one descriptor is ready. For the loop's thread only. The handler
/// may destroy the watcher.
class descriptor_watcher {
public:
  /// @pre the descriptor stays open until the watcher is destroyed.
  descriptor_watcher(io_loop& loop, int descriptor,
                     std::function<void()> ready);
  ~descriptor_watcher();
  descriptor_watcher(const descriptor_watcher&) = delete;
  descriptor_watcher& operator=(const descriptor_watcher&) = delete;

  /// Calls `ready` once when the descriptor is readable or has reached its end.
  void async_wait_readable();
  /// Calls `ready` once when the descriptor is writable.
  void async_wait_writable();

private:
  struct state;
  std::shared_ptr<state> state_;
};

/// One-shot timer. For the loop's thread only. The handler may destroy the
/// timer.
class timer {
public:
  timer(io_loop& loop, std::function<void()> expired);
  ~timer();
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

  /// Calls the handler once after this time. If the timer is running, it is
  /// restarted.
  void expires_after(std::chrono::nanoseconds from_now);
  /// Stops the timer. Its handler does not run, even if the time has elapsed.
  void cancel();

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace troupe::net
