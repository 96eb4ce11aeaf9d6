#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// How replicas of several processes sum up.
struct communication_options {
  /// Many tensors of one `all_reduce` travel in packs: one is opened when the
  /// one before holds more than this. 0: packs.hpp says when.
  std::int64_t bytes_per_pack = 0;

  /// Longest that one step, or one wait in it, may take.
  std::chrono::milliseconds timeout{60'000};

  /// Longest that the workers wait for one that saves a model, is in a callback
  /// of `fit` or comes late to `fit`, `evaluate` or `save`; never less than
  /// `timeout`. One that is lost is noticed at once all the same.
  std::chrono::milliseconds callback_timeout{600'000};

  /// How the sum is made: `tree` adds in the order of the canonical tree,
  /// wherever the replicas are; `ring` in one that depends on how many workers
  /// there are and who sits where, each speaking to the next alone. In one
  /// process both are the tree. `nccl` is not there yet.
  enum class implementations : std::uint8_t {
    automatic, ///< The tree.
    tree,
    ring,
    nccl,
  } implementation = implementations::automatic;
};

/// What one call of all replicas says of itself; whatever it leaves as it is
/// here is as the strategy has it.
struct call_options {
  std::int64_t bytes_per_pack = 0;
  /// Longest that one wait in the call may take; a strategy's is not exceeded.
  std::chrono::milliseconds timeout{0};
  communication_options::implementations implementation =
    communication_options::implementations::automatic;
};

/// @errors throws std::invalid_argument with a sentence: what cannot be, or is
///         not there.
void check(const communication_options& x);
void check(const call_options& x);

/// "auto", "tree", "ring" or "nccl", in any case.
/// @errors throws std::invalid_argument for any other.
communication_options::implementations
parse_implementation(const std::string& name);

} // namespace troupe
