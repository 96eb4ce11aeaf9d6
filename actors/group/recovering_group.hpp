#pragma once

#include <functional>

namespace troupe {

/// A replica group that waits for other processes when it recovers, and that
/// ends these waits if the program of its process wants to stop.
class recovering_group {
public:
  virtual ~recovering_group() = default;

  /// Sets a function that says whether the program wants to stop. If the
  /// function returns true for some seconds of a recovery, the waits and runs
  /// of this process end with a `job_error` (ec::cancelled). Later ones end so
  /// too, and the program can save its state. The function is called on a
  /// thread of an actor, with a lock held.
  /// @param is_to_stop null: the program cannot say so.
  /// @returns the function that was set before.
  virtual std::function<bool()>
  set_stop_request(std::function<bool()> is_to_stop) = 0;

  /// A recovery of this process begins, or has ended.
  virtual void set_recovering(bool recovers) = 0;

  /// True if this process has left its job because it lacks a resource, such as
  /// a descriptor, and does not know that the others go on. The others may lack
  /// the resource too, so the state of this process may be the last one.
  virtual bool may_have_last_state() const = 0;
};

} // namespace troupe
