#include "troupe/training/strategies/calls/step_results.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

namespace troupe {

bool step_results::hosts(std::uint32_t replica) const {
  const auto state = state_.lock();
  return state && state->spans_processes() && state->placement.hosts(replica);
}

step_results::form step_results::form_of(std::uint32_t replica) const {
  if (replica >= gathered_.size() || gathered_[replica].empty())
    return form::nothing;
  return static_cast<form>(gathered_[replica].front());
}

void step_results::throw_unknown(std::uint32_t replica,
                                 const char* call) const {
  std::string reason = "is malformed";
  if (form_of(replica) == form::too_large)
    reason = "is lost with its process: only results of at most "
             + std::to_string(max_bytes >> 10)
             + " KiB are sent to the other processes";
  else if (form_of(replica) == form::other_type)
    reason = "is lost with its process: only numbers, strings, tensors, and "
             "vectors and structs with fields() of them are sent to the other "
             "processes";
  throw job_error(ec::invalid, std::string{call} + ": the result of replica "
                                 + std::to_string(replica) + " in the "
                                 + std::to_string(step_ + 1) + ". call of run "
                                 + reason);
}

} // namespace troupe
