#pragma once

#include "troupe/actors/collectives/nccl/communicator/communicator_id_exchange.hpp"

#include <map>
#include <mutex>

namespace troupe {

/// Carries the ids of communicators to the other ranks of one process, which
/// share this object.
class communicator_ids final : public communicator_id_exchange {
public:
  /// Ids that are kept until a rank asks for them: none is many generations
  /// behind rank 0.
  static constexpr std::size_t max_ids = 64;

  void publish(std::uint64_t generation, const communicator_id& id) override;
  std::optional<communicator_id> find(std::uint64_t generation) override;

private:
  std::mutex lock_;
  std::map<std::uint64_t, communicator_id> ids_; ///< By generation.
};

} // namespace troupe
