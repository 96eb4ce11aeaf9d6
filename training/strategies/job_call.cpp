#include "troupe/training/strategies/job_call.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/training/strategies/host_collectives.hpp"
#include "troupe/training/strategies/text_codec.hpp"

#include <algorithm>

namespace troupe {

namespace {

bool is_loss(const job_error& error) {
  return (error.code == ec::peer_lost || error.code == ec::unreachable)
         && error.report().inside.empty();
}

/// Position and report of a process.
struct located_report {
  std::uint64_t calls = 0; ///< Calls that the process has completed.
  call_report report;
};

[[noreturn]] void throw_inconsistent(const char* what) {
  throw job_error(ec::protocol,
                  std::string{"after the loss of a process, "} + what);
}

/// Enters the next view of the job. @returns false if there is none.
bool enter_next_view(strategy_state& state,
                     const view_change::job_position& position) {
  if (!state.group->enter_next_view(position))
    return false;
  state.placement = state.group->replica_placement();
  state.copies = std::max(state.copies, state.placement.count());
  state.next_step = 0; // equal in all processes
  ++state.views;
  std::erase_if(state.observers, [](const auto& x) { return x.expired(); });
  for (const auto& one : state.observers)
    if (const auto observer = one.lock())
      observer->on_new_placement();
  return true;
}

std::vector<located_report>
gather_reports(const std::shared_ptr<strategy_state>& state,
               const job_call& call) {
  const auto texts = gather_text_once(
    state, encode_text(state->calls, call.steps ? call.steps() : 0,
                       call.report ? call.report() : std::string{}));
  std::vector<located_report> out(texts.size());
  for (std::size_t p = 0; p < texts.size(); ++p)
    if (!decode_text(texts[p], out[p].calls, out[p].report.steps,
                     out[p].report.text))
      throw_inconsistent("a process sent a malformed report");
  return out;
}

/// Brings the processes of a new view to the same call.
/// @returns true if that completes the call in this process.
bool catch_up(const std::shared_ptr<strategy_state>& state,
              const job_call& call) {
  const auto reports = gather_reports(state, call);
  const auto [first, last] =
    std::ranges::minmax_element(reports, {}, &located_report::calls);
  const auto most = last->calls;
  if (most - first->calls > 1)
    throw_inconsistent("two processes are more than one call apart");
  if (first->calls == most) {
    std::vector<call_report> all;
    for (const auto& one : reports)
      all.push_back(one.report);
    if (call.resume)
      call.resume(all);
    return false;
  }
  const bool is_behind = state->calls < most;
  const auto results =
    gather_text_once(state, is_behind ? std::string{} : state->last_result);
  if (!is_behind)
    return false; // no other process has begun this call
  const auto& result =
    results.at(static_cast<std::size_t>(&*last - reports.data()));
  call.complete(result);
  state->last_result = result;
  ++state->calls;
  return true;
}

} // namespace

void make_call(const std::shared_ptr<strategy_state>& state,
               const job_call& call) {
  for (bool entered = false;;) {
    try {
      if (entered && catch_up(state, call))
        return;
      state->last_result = call.run();
      ++state->calls;
      return;
    } catch (const job_error& e) {
      if (!is_loss(e)
          || !enter_next_view(*state,
                              {state->calls, call.steps ? call.steps() : 0}))
        throw;
      entered = true;
      if (state->placement.process == 0)
        log(log_level::warning,
            std::string{e.what()} + "; the job goes on with "
              + std::to_string(state->placement.job.processes())
              + (state->placement.job.processes() == 1 ? " process"
                                                       : " processes"));
    }
  }
}

} // namespace troupe
