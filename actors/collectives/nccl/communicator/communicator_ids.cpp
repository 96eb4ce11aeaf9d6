#include "troupe/actors/collectives/nccl/communicator/communicator_ids.hpp"

namespace troupe {

void communicator_ids::publish(std::uint64_t generation,
                               const communicator_id& id) {
  const std::lock_guard hold{lock_};
  ids_.emplace(generation, id);
  if (ids_.size() > max_ids)
    ids_.erase(ids_.begin());
}

std::optional<communicator_id>
communicator_ids::find(std::uint64_t generation) {
  const std::lock_guard hold{lock_};
  const auto found = ids_.find(generation);
  if (found == ids_.end())
    return std::nullopt;
  // No rank asks for the id of an older generation any more.
  ids_.erase(ids_.begin(), found);
  return found->second;
}

} // namespace troupe
