#pragma once

#include <functional>

namespace troupe {

/// Runs calls of libraries that may block, such as the initialisation and the
/// abort of a communicator, so that no thread that must respond makes them.
class blocking_calls {
public:
  virtual ~blocking_calls() = default;
  /// Runs a call. Does not wait for it. Calls may run at the same time.
  virtual void post(std::function<void()> call) = 0;
};

/// Runs each call on a thread of its own. A communicator makes two calls in its
/// life, and one that never returns must not delay the others.
class threaded_blocking_calls final : public blocking_calls {
public:
  void post(std::function<void()> call) override;
};

} // namespace troupe
