#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace troupe::net {

/// A thread that waits for descriptors and for times to come, and runs what is
/// to be done then. Nothing that it runs may block or throw.
class io_loop {
public:
  io_loop();
  ~io_loop(); ///< Stops.
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// From any thread. Dropped once the loop has stopped.
  void post(std::function<void()> fn);

  /// Whether the caller is its thread.
  bool here() const;

  /// Returns when its thread has ended; what waits is dropped. Not from `here`.
  void stop();

  /// CPU time of its thread.
  std::chrono::microseconds cpu_time() const;

  struct core;

private:
  friend class watch;
  friend class alarm;
  std::unique_ptr<core> core_;
};

/// Waits for one descriptor. For the loop's thread; may be destroyed by what it
/// calls.
class watch {
public:
  /// @pre the descriptor stays open until this is gone.
  watch(io_loop& by, int descriptor, std::function<void()> ready);
  ~watch();
  watch(const watch&) = delete;
  watch& operator=(const watch&) = delete;

  /// Calls `ready` once, when it can be read, or has ended.
  void until_readable();
  void until_writable();

private:
  struct state;
  std::shared_ptr<state> state_;
};

/// Waits for a time. For the loop's thread; may be destroyed by what it calls.
class alarm {
public:
  alarm(io_loop& by, std::function<void()> ring);
  ~alarm();
  alarm(const alarm&) = delete;
  alarm& operator=(const alarm&) = delete;

  /// Rings once; forgets what was set before.
  void in(std::chrono::nanoseconds from_now);
  void off();

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace troupe::net
