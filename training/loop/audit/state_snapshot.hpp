#pragma once

#include "troupe/training/loop/model/model_state.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// Returns a hash of one copy of the model's parameters and of the optimizer's
/// slots (training/support/block_hash.hpp). Equal copies have equal hashes in
/// all processes.
/// @cost one read of the copy; allocates no memory.
std::uint64_t hash_of_copy(const model_state& model, std::uint32_t copy);

/// A copy of the parameters and slots of a model, as they were before a step.
class state_snapshot {
public:
  /// Takes a snapshot of one copy of the state. If the snapshot has the same
  /// hash already, only its step changes.
  /// @param step number of the model's steps that the copy has made.
  /// @param hash of the copy.
  /// @cost one copy of the state; the first call allocates its memory.
  void take(const model_state& model, std::uint32_t copy, std::uint64_t step,
            std::uint64_t hash);

  /// Step of the snapshot. None: there is no snapshot.
  std::optional<std::uint64_t> step() const { return step_; }
  /// Hash that the state had when the snapshot was taken.
  std::uint64_t hash() const { return hash_; }
  /// Returns true if there is a snapshot, and its memory still has its hash.
  bool is_intact() const;

  /// Copies the snapshot to all copies of the state.
  void restore(model_state& model) const;
  void discard() { step_.reset(); }

  /// The tensors of the snapshot, to send them to another process.
  const std::vector<tensor>& tensors() const { return tensors_; }
  /// Takes the snapshot of another process.
  /// @param sent its `tensors()`.
  void take_sent(std::vector<tensor> sent, std::uint64_t step,
                 std::uint64_t hash);

private:
  std::optional<std::uint64_t> step_;
  std::uint64_t hash_ = 0;
  std::vector<tensor> tensors_; ///< Values, then slots.
};

} // namespace troupe
