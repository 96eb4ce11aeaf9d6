#pragma once

#include "troupe/strategies/coordinator/messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace troupe::coordinator {

/// What a `closure_effects` holds, for a snapshot. The effects travel beside
/// it.
struct effects_image {
  std::uint64_t done_below = 0;
  std::vector<std::uint64_t> decided; ///< Not below `done_below`, ascending.
  std::vector<execution> waiting; ///< Executions whose effects wait, ascending.
  auto fields() { return std::tie(done_below, decided, waiting); }
};

/// The effects of closures at one shard. A worker stores what an execution has
/// changed. The change takes place when the coordinator has decided for this
/// execution. So a closure counts once, however often it is executed and
/// whatever branch each execution takes. Effects of an execution that an
/// earlier life of the coordinator has begun wait too. The end of the execution
/// may be recorded, and the next life sends the decision. When a part of the
/// shard is removed, its host takes the part out of all effects that wait, and
/// refuses later effects on it. A closure whose effects have become empty is
/// decided as others.
///
///   cost  the effects that wait for a decision, and an entry of a set for each
///         closure that was decided and is not below `done_below` of the last
///         message. The coordinator bounds their number. Effects of executions
///         without a decision are dropped when `done_below` has passed them
class closure_effects {
public:
  /// Keeps the effects of an execution until the decision. No effect if they
  /// were stored before.
  /// @param done_below as in `run`, which the worker has received.
  /// @returns false: the closure was decided before, so they have no effect.
  bool store(const execution& from, payload effects,
             std::uint64_t done_below = 0);

  /// What a decision does.
  struct verdict {
    /// False: the effects of the execution were never stored here, so the
    /// coordinator has broken the protocol.
    bool is_possible = true;
    /// What takes place now. Empty: the decision was repeated.
    std::optional<payload> applied{};
  };
  verdict decide(const decision& received);

  /// True if a decision on the closure was received.
  bool is_decided(std::uint64_t ordinal) const {
    return ordinal < done_below_ || decided_.contains(ordinal);
  }
  /// Replaces the effects of each execution that waits.
  /// @param fn called with the effects; returns the new ones.
  template <class F>
  void transform_waiting(const F& fn) {
    for (auto& [which, effects] : waiting_)
      effects = fn(effects);
  }
  /// Number of closures that are kept although they are decided.
  std::size_t decided() const { return decided_.size(); }
  /// Number of executions whose effects wait.
  std::size_t waiting() const { return waiting_.size(); }

  effects_image save() const;
  /// Effects of the executions of `save().waiting`.
  std::vector<payload> waiting_effects() const;
  /// Takes what was saved.
  /// @param effects of the executions of `from.waiting`.
  /// @returns false: it is impossible, and nothing has changed.
  bool restore(const effects_image& from, const std::vector<payload>& effects);

private:
  void forget(std::uint64_t done_below);

  std::map<execution, payload> waiting_;
  std::set<std::uint64_t> decided_; ///< Not below `done_below_`.
  std::uint64_t done_below_ = 0;
};

} // namespace troupe::coordinator
