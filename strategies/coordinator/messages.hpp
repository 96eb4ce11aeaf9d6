#pragma once

#include "troupe/strategies/fields.hpp"

#include <compare>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

// Messages between a cluster coordinator, its workers and the shards of the
// parameters. Arguments, results, errors and gradients travel beside them.

namespace troupe::coordinator {

/// What travels beside a message. A state machine only keeps it. Null: there is
/// nothing.
using payload = std::shared_ptr<const void>;

/// Identifies one execution of a closure.
struct execution {
  /// Number of the closure: how many were scheduled before it.
  std::uint64_t ordinal = 0;
  /// Counted by the coordinator, from 1, for each closure in each of its lives.
  std::uint32_t attempt = 1;
  /// Life of the coordinator that has begun the attempt. The host increments it
  /// when the coordinator comes back.
  std::uint64_t life = 1;
  auto fields() { return std::tie(ordinal, attempt, life); }
  friend auto operator<=>(const execution&, const execution&) = default;
};

// -- coordinator to worker ----------------------------------------------------

/// Executes a closure. The function and its arguments travel beside it. A
/// worker that gets the first `run` of a newer life stops what it executes for
/// an older one.
struct run {
  coordinator::execution execution;
  /// All closures below it are done: the worker forgets them, and executes none
  /// of them.
  std::uint64_t done_below = 0;
  /// The closure waits for other closures: the worker begins it at once, beside
  /// all others.
  bool waits_for_others = false;
  auto fields() { return std::tie(execution, done_below, waits_for_others); }
};

/// Stops an execution. The worker answers with `stopped`, also if it does not
/// know the execution, or repeats `ended` or `failed`.
struct cancel {
  coordinator::execution execution;
  auto fields() { return std::tie(execution); }
};

/// Asks what has become of an execution. The worker repeats `ended`, `failed`
/// or `stopped`, or answers with `unknown`. While it executes it, it does not
/// answer.
struct query {
  coordinator::execution execution;
  auto fields() { return std::tie(execution); }
};

// -- worker to coordinator ----------------------------------------------------

/// An execution has ended without an error, and all its effects are stored at
/// their shards, where they wait for the decision. The result travels beside
/// it.
struct ended {
  coordinator::execution execution;
  std::vector<std::uint32_t> shards; ///< Shards with effects, ascending.
  auto fields() { return std::tie(execution, shards); }
};

/// An execution has thrown. The error travels beside it.
struct failed {
  coordinator::execution execution;
  auto fields() { return std::tie(execution); }
};

/// The sender does not execute this any more, and will send nothing else about
/// it.
struct stopped {
  coordinator::execution execution;
  auto fields() { return std::tie(execution); }
};

/// The sender has not received `run` of this execution.
struct unknown {
  coordinator::execution execution;
  auto fields() { return std::tie(execution); }
};

// -- coordinator to shard -----------------------------------------------------

/// The effects of this execution take place. Those of all other executions of
/// the closure have none.
struct decision {
  coordinator::execution execution;
  /// All closures below it are done: the shard forgets them, and rejects their
  /// effects.
  std::uint64_t done_below = 0;
  auto fields() { return std::tie(execution, done_below); }
};

// -- shard to coordinator -----------------------------------------------------

/// The effects of the closure have taken place, and all copies of the shard
/// know it.
struct decided {
  std::uint32_t shard = 0;
  std::uint64_t ordinal = 0;
  auto fields() { return std::tie(shard, ordinal); }
};

} // namespace troupe::coordinator
