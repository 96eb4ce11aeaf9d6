#include "troupe/actors/group/job_status_source.hpp"
#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/membership/job_overview.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/strategy.hpp"

namespace troupe {

job_status strategy::explain(std::chrono::milliseconds timeout) const {
  job_status out;
  if (const auto source = state_->group->status_source())
    out = source->status(timeout);
  if (state_->cluster) {
    state_->cluster->add_to(out);
  } else {
    out.job = "local";
    add_decisions(state_->recorder, out);
  }
  return out;
}

} // namespace troupe
