#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace troupe {

/// Runs calls of libraries that may block, such as those that make or abort a
/// communicator. So no thread that must respond makes such a call.
class blocking_calls {
public:
  virtual ~blocking_calls() = default;
  /// Runs a call. Does not wait for it. Calls may run at the same time.
  /// @errors may throw std::system_error if there is no thread for the call.
  virtual void post(std::function<void()> call) = 0;
};

/// Runs each call on a thread of its own. A communicator makes two calls in its
/// life, and one that never returns must not delay the others.
class threaded_blocking_calls final : public blocking_calls {
public:
  /// @param end_timeout time for which the destructor waits for calls.
  explicit threaded_blocking_calls(
    std::chrono::milliseconds end_timeout = std::chrono::seconds{5});
  /// Waits until the calls have returned: a program that ends in a call of a
  /// driver may crash. A call that lasts longer than the timeout continues
  /// on its thread.
  ~threaded_blocking_calls() override;

  void post(std::function<void()> call) override;

private:
  struct running_calls;
  const std::chrono::milliseconds end_timeout_;
  const std::shared_ptr<running_calls> running_; ///< Shared with the threads.
};

} // namespace troupe
