#pragma once

#include "troupe/strategies/coordinator/messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <variant>

namespace troupe::coordinator {

/// What a worker tells the coordinator about an execution.
struct answer {
  std::variant<ended, failed, stopped, unknown> message;
  payload beside{}; ///< Result of `ended`, error of `failed`. Null: none.
};

/// The executions that a worker has begun, or was told to cancel before they
/// began. The worker begins each of them once, however often `run` arrives. It
/// begins none of an older life of the coordinator than the newest known one.
/// It keeps the answers, because the coordinator asks again if an answer is
/// lost.
/// @cost an entry, with the result, for each execution of a closure that is not
///       below `done_below` of the last `run`. The coordinator bounds their
///       number.
class executions {
public:
  /// The host stops what `is_superseded` afterwards.
  /// @returns true if the worker executes it now.
  bool begin(const run& received);
  /// An execution has ended or has thrown.
  /// @returns true if the host sends the answer. False: it was stopped, or the
  ///          coordinator does not wait for it any more.
  bool finish(const execution& which, answer with);
  /// The host stops the execution, and what `is_superseded`, and sends
  /// `answer_to` the execution.
  void on(const cancel& received);
  /// The answer to `query` or `cancel`. Empty: the execution has not ended, or
  /// the coordinator does not wait for it any more.
  std::optional<answer> answer_to(const execution& which) const;

  /// True if the life that has begun the execution is over: a newer one has
  /// sent `run` or `cancel`. The worker stops the execution, and sends nothing.
  bool is_superseded(const execution& which) const {
    return which.life < life_;
  }
  std::size_t size() const { return known_.size(); }

private:
  bool is_current(const execution& which);

  /// Answers to executions of the life `life_`. None: it is executed now.
  std::map<execution, std::optional<answer>> known_;
  std::uint64_t done_below_ = 0;
  std::uint64_t life_ = 0; ///< The newest of which the worker has heard.
};

} // namespace troupe::coordinator
