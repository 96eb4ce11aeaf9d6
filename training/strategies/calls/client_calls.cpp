#include "troupe/training/strategies/calls/client_calls.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// Longest wait of a member for the process that joins. That process has
/// connected to all members before.
constexpr auto admission_timeout = 10s;
/// Interval in which members compare what they wait for.
constexpr auto admission_interval = 100ms;

bool is_member(const strategy_state& state, std::uint64_t incarnation) {
  const auto members = state.group->members();
  return std::ranges::find(members, incarnation) != members.end();
}

/// What a member tells the others in a round.
struct admission_round {
  bool is_asked = false; ///< The process has asked it.
  bool is_late = false;  ///< It has waited for too long.
};

/// @returns whether any member is asked, and whether any is late.
admission_round gather_round(const std::shared_ptr<strategy_state>& state,
                             const admission_round& own) {
  admission_round out;
  for (const auto& text :
       gather_text_once(state, encode_text(own.is_asked, own.is_late),
                        state->callback_timeout)) {
    admission_round one;
    if (!decode_text(text, one.is_asked, one.is_late))
      throw job_error(ec::protocol,
                      "another worker has made another call: all workers must "
                      "make the same calls in the same order");
    out.is_asked |= one.is_asked;
    out.is_late |= one.is_late;
  }
  return out;
}

/// Makes one round. If the view changes, a run in it fails.
/// @returns false if a member has waited for too long.
bool wait_for_process(const std::shared_ptr<strategy_state>& state,
                      std::chrono::steady_clock::time_point deadline) {
  admission_round own;
  own.is_asked = state->group->await_deferred_candidate(admission_interval);
  own.is_late = std::chrono::steady_clock::now() > deadline;
  const auto all = gather_round(state, own);
  if (all.is_late)
    return false;
  if (all.is_asked)
    state->group->admit_candidates(admission_interval);
  if (state->placement.job.processes() == 1)
    run_one_step(state, [](replica_context&) {});
  return true;
}

} // namespace

void begin_client_calls(const std::shared_ptr<strategy_state>& state) {
  state->has_client = true;
  state->group->defer_candidates(true);
}

bool admit_process(const std::shared_ptr<strategy_state>& state,
                   std::uint64_t incarnation) {
  const auto deadline = std::chrono::steady_clock::now() + admission_timeout;
  bool is_admitted = false;
  job_call call;
  call.name = "the admission of a process";
  call.run = [&] {
    while (!(is_admitted = is_member(*state, incarnation)))
      if (!wait_for_process(state, deadline))
        break;
    return encode_text(is_admitted);
  };
  call.complete = [&](const std::string& result) {
    if (!decode_text(result, is_admitted))
      throw job_error(ec::protocol,
                      "a worker sent a malformed result of an admission");
  };
  try {
    make_call(state, call);
  } catch (...) {
    state->group->defer_candidates(true);
    throw;
  }
  state->group->defer_candidates(true);
  return is_admitted;
}

} // namespace troupe
