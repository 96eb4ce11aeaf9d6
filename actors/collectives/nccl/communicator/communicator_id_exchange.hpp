#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_communicator.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// Carries the ids of communicators from rank 0 to the other ranks:
/// `communicator_ids` in one process, and `communicator_channels` between
/// processes. An id lets its holder join the communicator, so it passes over
/// the authenticated connections of the job. The functions do not wait, and may
/// be called from any thread.
class communicator_id_exchange {
public:
  virtual ~communicator_id_exchange() = default;

  /// Called by rank 0: sends the id of a generation's communicator to all other
  /// ranks.
  virtual void publish(std::uint64_t generation, const communicator_id& id) = 0;
  /// Called by the other ranks: returns the id, or nullopt if it has not
  /// arrived.
  virtual std::optional<communicator_id> find(std::uint64_t generation) = 0;
};

} // namespace troupe
