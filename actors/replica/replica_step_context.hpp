#pragma once

#include "troupe/actors/replica/replica.hpp"

#include <caf/actor_clock.hpp>

#include <optional>

namespace troupe {

/// Step context of a replica actor. Only code on the fiber of the replica uses
/// it.
class replica_step final : public step_context {
public:
  explicit replica_step(replica_state& of) : of_{of} {}

  void contribute(std::uint32_t bucket, const tensor& part) override;
  void give(std::uint32_t bucket, const tensor& part) override;
  tensor sum(std::uint32_t bucket) override;
  tensors gather(std::uint32_t bucket, const tensor& part) override;
  void begin_update() override;

  /// Waits for all sums that this replica contributed to and, with a backend,
  /// until all packets and buffers of its collectives are released.
  void settle();

private:
  template <class Ready>
  void wait(commit::doing what, std::uint32_t bucket, Ready ready);

  /// @returns the deadline of a wait that begins now; none if the collective
  ///          options have no timeout.
  std::optional<caf::actor_clock::time_point> deadline() const;
  bool is_over(std::optional<caf::actor_clock::time_point> till);
  void ring_at(caf::actor_clock::time_point then);

  // Only with a backend.
  void await(commit::doing what, const data_plane::wish& x);
  void look_at_mail();

  replica_state& of_;
};

} // namespace troupe
