#pragma once

#include "troupe/actors/protocol/shard_messages.hpp"
#include "troupe/strategies/coordinator/messages.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"
#include "troupe/tensors/tensor.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

// A closure, and what it may use while a worker executes it. This header does
// not include CAF.

namespace troupe {

/// Maximum size of a report of a closure, with 64 bytes for each tensor.
inline constexpr std::size_t max_report_bytes = std::size_t{64} * 1024;

/// Number of an attempt. Threads share it.
using shared_attempt = std::shared_ptr<std::atomic<std::uint32_t>>;

/// What a closure may use while a worker executes it.
class closure_environment {
public:
  virtual ~closure_environment() = default;

  std::uint32_t worker = 0;    ///< Number of the worker.
  std::uint64_t worker_id = 0; ///< Id of the worker's actor; never used again.
  coordinator::execution execution;

  /// Where a part of a variable is.
  struct address {
    std::uint32_t shard = 0; ///< Index of its shard.
    std::uint64_t part = 0;  ///< Number of the part in the job.
    bool is_table = false;   ///< The part is a range of rows of a table.
  };
  /// A part to read.
  struct read : address {
    tensor rows{}; ///< Indices of rows, [m] int64. Empty: all.
  };
  /// Returns the values of parts, or some of their rows, with what this
  /// execution has changed. Waits for the shards.
  /// @errors throws `job_error` if a shard does not answer in time.
  virtual std::vector<tensor> pull(std::span<const read> parts) = 0;

  /// A pull of a replica, with the numbers of rows that travel beside it.
  struct step_pull {
    replica_pull what;
    tensors rows{};
  };
  struct step_values {
    parameter_server::pulled answer;
    tensors values; ///< Of the parts.
  };
  /// Pulls parts of a training, from several shards at once. Waits until the
  /// replica may read all of them.
  /// @errors throws `job_error`; one with `ec::superseded` if a later training
  ///         has begun.
  virtual std::vector<step_values>
  pull_step(std::span<const step_pull> all) = 0;

  /// A push of a replica, with its gradient.
  struct step_push {
    replica_push what;
    tensors gradient;
  };
  /// Contributes to steps of a training, at once, and not when the closure has
  /// ended. Waits until the shards have acknowledged all pushes. The gradients
  /// must not change until their steps are decided.
  /// @param next pulls that may wait for these pushes. They are sent without
  ///        waiting.
  /// @returns the answers to these pulls.
  /// @errors as `pull_step`
  virtual std::vector<step_values>
  push_step(std::span<const step_push> all,
            std::span<const step_pull> next) = 0;

  /// Tells the listener of the closure something before its end. Reports keep
  /// their order.
  /// @errors throws std::logic_error for a report above `max_report_bytes`.
  virtual void report(tensors what) = 0;

  /// Notes a change, which takes place when the closure has ended.
  virtual void change(const address& part,
                      parameter_server::part_change change) = 0;

  /// True if the execution shall end: its result will not be used.
  virtual bool is_stopped() const = 0;

  /// The attempt of the closure that counts. It outlives the closure.
  virtual const shared_attempt& counted_attempt() const = 0;

  /// Calls `fn` if the execution was stopped, has thrown, or if its effects
  /// could not be stored.
  virtual void at_failure(std::function<void()> fn) = 0;
};

/// Receives what becomes of a closure, on the thread of the scheduler:
/// `on_report` any number of times, and then one of the other functions once.
class closure_listener {
public:
  virtual ~closure_listener() = default;
  /// An execution reports something. Another one may count in the end.
  virtual void on_report(const tensors& what) = 0;
  virtual void on_ready(coordinator::payload result) = 0;
  /// The closure was cancelled: another one has thrown.
  virtual void on_cancelled() = 0;
  /// The closure has thrown. No closure is executed at this time, and the
  /// scheduler cancels all closures until it gets `resume`.
  virtual void on_failed(std::exception_ptr error, std::uint32_t worker) = 0;
};

/// A closure. It may be executed several times. A closure that is destroyed
/// before its listener was called is cancelled.
struct closure {
  closure(std::function<coordinator::payload(closure_environment&)> fn,
          std::shared_ptr<closure_listener> result)
    : function{std::move(fn)}, listener{std::move(result)} {}
  ~closure() { cancel(); }
  closure(const closure&) = delete;
  closure& operator=(const closure&) = delete;

  /// Tells the listener that the closure was cancelled, unless it knows what
  /// has become of it.
  void cancel() {
    if (const auto to = std::exchange(listener, nullptr))
      to->on_cancelled();
  }

  /// A closure that is registered on nodes.
  closure(std::string registered, tensors given,
          std::shared_ptr<closure_listener> result)
    : name{std::move(registered)},
      inputs{std::move(given)},
      listener{std::move(result)} {}

  /// Empty: it is registered on nodes as `name`.
  const std::function<coordinator::payload(closure_environment&)> function;
  const std::string name;
  const tensors inputs; ///< Inputs of a registered closure.
  /// It ends only if other closures are executed at the same time. Set before
  /// it is scheduled.
  bool waits_for_others = false;
  /// Null: it was called. Only the scheduler uses it.
  std::shared_ptr<closure_listener> listener;
  /// All attempts up to this one shall end.
  std::atomic<std::uint32_t> stopped_attempts{0};
  /// The attempt that counts. Zero: none yet.
  const shared_attempt counted_attempt =
    std::make_shared<std::atomic<std::uint32_t>>(0);
};
using shared_closure = std::shared_ptr<closure>;

/// The error of a closure.
struct closure_failure {
  std::exception_ptr thrown;
  std::uint32_t worker = 0;
};

/// Returns the environment of the closure that runs on this thread. Null: none.
closure_environment* current_closure();

/// Makes an environment the one of the closure that runs on this thread.
class closure_scope {
public:
  explicit closure_scope(closure_environment& running);
  ~closure_scope();
  closure_scope(const closure_scope&) = delete;
  closure_scope& operator=(const closure_scope&) = delete;

private:
  closure_environment* before_;
};

} // namespace troupe
