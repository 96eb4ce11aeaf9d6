#pragma once

#include "troupe/actors/protocol/closure.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace troupe {

/// What has become of a closure.
enum class remote_value_status : std::uint8_t {
  not_ready, ///< It waits or is executed.
  ready,     ///< It is done, and its result can be fetched.
  aborted,   ///< It has thrown or was cancelled.
};

/// The closures of a coordinator that are not done, and the error that was not
/// reported yet. Any thread may call all functions.
class unfinished_closures {
public:
  /// @param max_unfinished `add` waits while there are so many.
  explicit unfinished_closures(std::uint64_t max_unfinished)
    : max_unfinished_{max_unfinished} {}

  /// Adds a closure and calls `send`, one after the other for all threads.
  /// @param is_limited false: it does not wait while there are too many.
  /// @errors as `throw_error`, and then the closure is not added.
  void add(bool is_limited, const std::function<void()>& send);
  /// Waits until no closure is left. Nullopt: without a limit.
  /// @returns false after the timeout.
  /// @errors as `throw_error`.
  bool wait_for_all(std::optional<std::chrono::milliseconds> timeout);
  /// @errors as `throw_error`.
  bool is_done();

  /// A closure is done or cancelled, after `change`.
  void settle(const std::function<void()>& change);
  /// A closure has thrown, after `change`. No closure is executed until the
  /// error is reported.
  void fail(std::exception_ptr error, const std::function<void()>& change);
  /// No closure can be done any more.
  void fail_all(const std::string& why);

  /// Number of closures that were added.
  std::uint64_t added();

  /// Waits until `condition()` is true. Called under the lock.
  void wait(const std::function<bool()>& condition);
  /// @returns false if it is false after the timeout.
  bool wait_for(const std::function<bool()>& condition,
                std::chrono::milliseconds timeout);
  /// True if no closure can be done any more. @pre the lock is held, as in the
  /// condition of `wait`.
  bool is_broken() const { return !broken_.empty(); }
  /// Returns `read()`, called under the lock.
  template <class F>
  auto read(F fn) {
    const std::lock_guard hold{lock_};
    return fn();
  }

  /// Called under the lock when the error is reported.
  std::function<void()> on_reported{};

private:
  using lock = std::unique_lock<std::mutex>;
  /// Reports the error of a closure, once.
  /// @errors rethrows it; `job_error` if a server has ended.
  void throw_error();
  bool has_error() const { return error_ || !broken_.empty(); }
  void notify();

  const std::uint64_t max_unfinished_;
  std::mutex lock_; // guards all below
  std::condition_variable changed_;
  /// Threads that wait for a condition of their own, in `add`, and for all
  /// closures.
  std::uint32_t waiting_ = 0, adding_ = 0, joining_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t added_ = 0;
  std::exception_ptr error_;
  std::string broken_; ///< Why no closure can be done. Empty: it can.
};

/// The result of a closure, for its `remote_value`.
class closure_result final : public closure_listener {
public:
  /// @param on_report called with what the closure reports. Empty: no effect.
  explicit closure_result(std::shared_ptr<unfinished_closures> unfinished,
                          std::function<void(const tensors&)> on_report = {})
    : closures_{std::move(unfinished)}, on_report_{std::move(on_report)} {}

  void on_report(const tensors& what) override {
    if (on_report_)
      on_report_(what);
  }
  void on_ready(coordinator::payload result) override;
  void on_cancelled() override;
  void on_failed(std::exception_ptr error, std::uint32_t worker) override;

  remote_value_status status() const;
  /// Waits for the result.
  /// @errors rethrows the error of the closure; `closure_cancelled`.
  const coordinator::payload& get() const;
  /// True if the closure is done or has failed. @pre as
  /// `unfinished_closures::is_broken`.
  bool is_over() const { return status_ != remote_value_status::not_ready; }
  /// True if the closure is one of these.
  bool is_of(const unfinished_closures& closures) const {
    return closures_.get() == &closures;
  }

private:
  const std::shared_ptr<unfinished_closures>
    closures_; // its lock guards all below but `on_report_`
  const std::function<void(const tensors&)> on_report_;
  remote_value_status status_ = remote_value_status::not_ready;
  coordinator::payload result_;
  std::exception_ptr error_;
};

} // namespace troupe
