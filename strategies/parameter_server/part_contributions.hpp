#pragma once

#include "troupe/strategies/parameter_server/messages.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe::parameter_server {

/// Number of steps that a replica may push to a part after the first one that
/// is missing, and to a synchronous part after the next decision.
inline constexpr std::uint64_t max_steps_ahead = 64;

/// A push and its gradient.
struct contribution {
  push pushed;
  payload gradient;
};

/// An update of a part.
struct update {
  std::uint32_t part = 0;    ///< Index of the part in the training.
  std::uint64_t version = 0; ///< Version of the part after the update.
  /// By replica, ascending. The host adds them in the order of the canonical
  /// tree, and applies the sum once.
  std::vector<contribution> contributions;
  /// Contributions to this step that do not count.
  std::vector<contribution> dropped{};
  update_factors factors{};
  bool is_decided = false; ///< The part is synchronous.
};

/// The contributions to one part: which have been received, when they become
/// updates, and when a replica may read the part. All copies of a shard give
/// their parts the same contributions and decisions in the same order, so
/// they make the same updates.
///
///   asynchronous  a contribution is an update. A replica reads when the part
///                 has its own contributions
///   bounded       as asynchronous. A replica that reads for step c also waits
///                 for the contributions of all replicas to the steps below
///                 c - max_staleness. One that is lost keeps its clock: the
///                 others wait until it goes on elsewhere
///   synchronous   contributions to a step wait for the decision of the chief.
///                 A replica reads for step c after c decisions. So no shard
///                 applies a step of which another shard lacks a contribution,
///                 and a replica that was moved can repeat the step from the
///                 same parameters. A decision also moves the clocks of the
///                 replicas that it does not name: they go on at the version
///                 that they read
///   cost          16 bytes for each replica, and the gradients that wait for a
///                 decision
class part_contributions {
public:
  part_contributions(std::uint32_t part, const consistency& rule,
                     std::uint32_t replicas);

  /// Says what `add` would do: `accepted`, `repeated` or `future_step`.
  /// @pre `replica` is below the number of replicas.
  push_result check(std::uint32_t replica, std::uint64_t step) const;
  /// Adds a contribution. No effect if its step is decided.
  /// @pre `check` returns `accepted`, or the step is decided.
  /// @returns the update that it makes, if it makes one at once.
  std::optional<update> add(const contribution& given);
  /// True if the decision on this step was applied, so that a contribution to
  /// it has no effect.
  bool is_decided(std::uint64_t step) const;
  /// True if `decide` can be called: it is the next decision, all contributors
  /// have contributed, and they are enough.
  bool can_decide(const decision& next) const;
  /// @pre `can_decide`.
  update decide(const decision& next);

  /// True if the replica may read the part for a step.
  bool can_read(std::uint32_t replica, std::uint64_t step) const;
  /// First step to which a contribution of the replica is missing.
  std::uint64_t next_step(std::uint32_t replica) const {
    return clocks_[replica].next_step;
  }
  std::uint64_t version() const { return version_; }
  const consistency& rule() const { return rule_; }

  part_state state() const;
  /// Gradients of `state().waiting`.
  std::vector<payload> waiting_gradients() const;
  /// Takes the state of another copy of this part.
  /// @param gradients gradients of `from.waiting`.
  /// @returns false: the state is impossible, and nothing has changed.
  bool restore(const part_state& from, std::span<const payload> gradients);

private:
  std::uint32_t part_;
  consistency rule_;
  std::uint64_t version_ = 0;
  std::vector<replica_clock> clocks_; ///< By replica.
  /// `synchronous`: contributions that wait, by step and replica.
  std::vector<contribution> waiting_;
};

} // namespace troupe::parameter_server
