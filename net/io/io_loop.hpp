#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace troupe::net {

/// A thread that waits for descriptors and timers and runs their handlers. A
/// handler must not block or throw.
class io_loop {
public:
  io_loop();
  ~io_loop(); ///< Calls `stop`.
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// Runs a function on the loop's thread. Callable from any thread. Dropped if
  /// the loop has stopped.
  void post(std::function<void()> fn);

  /// True if the caller is the loop's thread.
  bool is_loop_thread() const;

  /// Stops the loop and joins its thread; pending functions are dropped. @pre
  /// not called on the loop's thread.
  void stop();

  /// CPU time of the loop's thread.
  std::chrono::microseconds cpu_time() const;

  struct core;

private:
  friend class descriptor_watcher;
  friend class timer;
  std::unique_ptr<core> core_;
};

/// Waits for one descriptor. Used on the loop's thread only; a handler may
/// destroy it.
class descriptor_watcher {
public:
  /// @pre the descriptor stays open for the lifetime of the watcher.
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

/// One-shot timer. Used on the loop's thread only; its handler may destroy it.
class timer {
public:
  timer(io_loop& loop, std::function<void()> expired);
  ~timer();
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

  /// Calls the handler once after this time; replaces an earlier setting.
  void expires_after(std::chrono::nanoseconds from_now);
  /// Cancels the timer.
  void cancel();

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace troupe::net
