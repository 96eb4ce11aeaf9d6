#pragma once

#include <chrono>

namespace troupe {

/// The steady clock of waits that are no waits of actors. In a program it is
/// std::chrono::steady_clock. A simulator replaces the time on its thread by
/// its virtual time.
struct wait_clock {
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  static time_point now();

  /// Source of the time on a thread.
  class source {
  public:
    virtual ~source() = default;
    virtual time_point now() const = 0;
  };

  /// On the thread that makes it, `now` returns the time of a source as long as
  /// this object exists.
  class replacement {
  public:
    /// @param time must outlive this object.
    explicit replacement(const source& time);
    ~replacement();
    replacement(const replacement&) = delete;
    replacement& operator=(const replacement&) = delete;

  private:
    const source* previous_;
  };
};

} // namespace troupe
