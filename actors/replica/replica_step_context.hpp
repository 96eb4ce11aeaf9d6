#pragma once

#include "troupe/actors/replica/replica.hpp"

#include <caf/actor_clock.hpp>

#include <optional>

namespace troupe {

/// Step context of a replica actor. Only code on the fiber of the replica uses
/// it.
class replica_step_context final : public step_context {
public:
  explicit replica_step_context(replica_state& state) : state_{state} {}

  void contribute(std::uint32_t bucket, const tensor& contribution) override;
  void contribute_in_place(std::uint32_t bucket,
                           const tensor& contribution) override;
  tensor sum(std::uint32_t bucket) override;
  tensors gather(std::uint32_t bucket, const tensor& contribution) override;
  void begin_update() override;

  /// Waits until all sums to which this replica contributed are complete. With
  /// a backend, also waits until all packets of its collectives have left this
  /// process and no peer reads a zero-copy buffer.
  void wait_until_drained();

private:
  template <class Ready>
  void wait(step_commit::activity activity, std::uint32_t bucket, Ready ready);

  /// Returns the deadline of a wait that begins now. Nullopt: the collective
  /// options have no timeout.
  std::optional<caf::actor_clock::time_point> deadline() const;
  bool fail_if_expired(std::optional<caf::actor_clock::time_point> limit);
  void wake_at(caf::actor_clock::time_point time);

  // Called only if the replica has a backend.
  void wait_for_backend(step_commit::activity activity,
                        const lane_backend::wait_condition& condition);
  void yield_to_mailbox();

  replica_state& state_;
};

} // namespace troupe
