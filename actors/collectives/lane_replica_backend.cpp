#include "troupe/actors/collectives/lane_replica_backend.hpp"

namespace troupe {

std::optional<collective_backend::failure>
lane_replica_backend::last_failure() {
  const auto peer = lanes_->failure();
  if (!peer)
    return std::nullopt;
  failure out{peer->code, peer->reason, peer->process};
  if (peer->code != ec::protocol)
    out.suspect = {peer->process, peer->code, peer->reason};
  return out;
}

std::vector<std::uint32_t>
lane_replica_backend::missing(std::uint64_t step,
                              const std::optional<wait_condition>& condition) {
  if (auto incomplete = lanes_->missing_inputs(step))
    return std::move(incomplete->replicas);
  if (condition && condition->event == wait_condition::kind::drained
      && step == step_)
    return lanes_->pending_receivers();
  return {};
}

} // namespace troupe
