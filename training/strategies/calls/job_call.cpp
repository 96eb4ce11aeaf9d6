#include "troupe/training/strategies/calls/job_call.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/wait_clock.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/group/recovering_group.hpp"
#include "troupe/actors/group/respawn_limit.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/step_callback.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/strategies/replica/transports.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// A process that joins with a large state does not ask in shorter calls in
/// which it cannot copy the state ahead.
constexpr auto short_call = 30s;
constexpr auto poll_interval = 20ms;

bool is_loss(const job_error& error) {
  return (error.code == ec::peer_lost || error.code == ec::unreachable
          || error.report().kind == failure_kind::chief_terminated)
         && error.report().inside.empty();
}

/// Position and report of a process.
struct located_report {
  std::uint64_t calls = 0;               ///< As `strategy_state::calls`.
  std::uint64_t loop_calls = 0;          ///< As `strategy_state::loop_calls`.
  std::uint64_t job_id = 0;              ///< As `strategy_state::job_id`.
  callback_progress processed_callbacks; ///< As in `strategy_state`.
  bool lacks_state = false;

  /// Calls that the process has completed.
  std::uint64_t all_calls() const { return calls + loop_calls; }
  call_report report;
};

std::uint64_t bytes_of(const std::vector<tensor>& all) {
  std::uint64_t out = 0;
  for (const auto& x : all)
    out += x.bytes();
  return out;
}

[[noreturn]] void throw_inconsistent(const char* what) {
  throw job_error(ec::protocol,
                  std::string{"after a change of the job's view, "} + what);
}

[[noreturn]] void throw_busy(const strategy_state& state,
                             const std::string& call) {
  throw std::logic_error(
    call + " was called while another call of the " + state.name
    + " strategy is active; a strategy makes one call at a "
      "time");
}

struct in_call_guard {
  /// @param call what the process does, in the error text.
  /// @errors throws std::logic_error if a call or a run is active.
  in_call_guard(strategy_state& state, const std::string& call) : state{state} {
    check_idle(state, call);
    if (state.in_call.exchange(true))
      throw_busy(state, call);
  }
  ~in_call_guard() { state.in_call = false; }
  in_call_guard(const in_call_guard&) = delete;
  in_call_guard& operator=(const in_call_guard&) = delete;
  strategy_state& state;
};

/// Runs are requested for this call while the object exists.
struct current_call_guard {
  current_call_guard(strategy_state& state, requesting_call call)
    : state{state},
      before{std::exchange(state.current_call, std::move(call))} {}
  ~current_call_guard() { state.current_call = before; }
  current_call_guard(const current_call_guard&) = delete;
  current_call_guard& operator=(const current_call_guard&) = delete;
  strategy_state& state;
  const requesting_call before;
};

/// Lets the group end the recovery of this process if the program wants to
/// stop.
class recovery_scope {
public:
  explicit recovery_scope(const strategy_state& state)
    : group_{dynamic_cast<recovering_group*>(state.group.get())} {}
  ~recovery_scope() { set(false); }
  recovery_scope(const recovery_scope&) = delete;
  recovery_scope& operator=(const recovery_scope&) = delete;

  /// The process recovers from now on, or no longer.
  void set(bool recovers) {
    if (group_ && std::exchange(recovers_, recovers) != recovers)
      group_->set_recovering(recovers);
  }

private:
  recovering_group* const group_; ///< Null: the view cannot change.
  bool recovers_ = false;
};

/// The group has entered another view.
void on_next_view(strategy_state& state) {
  state.placement = state.group->replica_placement();
  if (state.cluster)
    if (const auto now = transports_of(*state.cluster);
        now != "none") // the last worker keeps what it has used
      state.transport = now;
  if (!state.is_one_process) // whose replicas stay the same
    state.copies = std::max(state.copies, state.placement.count());
  state.next_step = 0; // equal in all processes
  ++state.views;
  state.must_catch_up = true;
  std::erase_if(state.observers, [](const auto& x) { return x.expired(); });
  for (const auto& one : state.observers)
    if (const auto observer = one.lock())
      observer->on_new_placement();
}

/// Enters the next view of the job. @returns false if there is none.
/// @errors throws `device_lost`: this process cannot compute in a view.
bool enter_next_view(strategy_state& state, std::uint64_t steps) {
  check_devices(state.tensor_devices());
  std::optional<view_change::job_position> position;
  if (!state.lacks_state)
    position = {state.all_calls(), steps};
  if (!state.group->enter_next_view(position, state.callback_timeout))
    return false;
  on_next_view(state);
  return true;
}

/// @param reason why the view has changed.
void log_new_view(const strategy_state& state, const std::string& reason) {
  if (state.placement.process != 0)
    return;
  const auto now = state.placement.job.processes();
  if (state.is_one_process)
    return log(log_level::warning, reason + "; its actors are made again");
  log(log_level::warning, reason + "; the job goes on with "
                            + std::to_string(now)
                            + (now == 1 ? " process" : " processes"));
}

/// Returns the members of `all` that are not in `others`.
std::vector<std::uint64_t>
members_without(const std::vector<std::uint64_t>& all,
                const std::vector<std::uint64_t>& others) {
  std::vector<std::uint64_t> out;
  std::ranges::copy_if(all, std::back_inserter(out), [&](std::uint64_t x) {
    return std::ranges::find(others, x) == others.end();
  });
  return out;
}

void add_part(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : "; ") + part;
}

/// Adds how many processes have left, for example.
void add_count(std::string& text, std::size_t count, const std::string& what) {
  if (count > 0)
    add_part(text, count == 1
                     ? "a process has " + what
                     : std::to_string(count) + " processes have " + what);
}

/// Returns how the members of the current view differ from those of the view
/// before.
/// @param before  incarnations of the members of the view before.
/// @param leavers incarnations of the processes that wanted to leave.
/// @param error   why the run before has failed. Null: it has not.
std::string describe_change(const strategy_state& state,
                            const std::vector<std::uint64_t>& before,
                            const std::vector<std::uint64_t>& leavers,
                            const job_error* error) {
  const auto now = state.group->members();
  const auto gone = members_without(before, now);
  const auto lost = members_without(gone, leavers);
  const auto joined = members_without(now, before);
  if (gone.empty() && joined.empty() && error
      && is_end_of_role(error->report()))
    return std::string{error->what()} + "; all replicas are made again";
  if (gone.empty() && joined.empty())
    return std::string{"connections were made again"}
           + (error ? " (" + std::string{error->what()} + ")" : "");
  std::string out;
  add_count(out, gone.size() - lost.size(), "left");
  if (!lost.empty() && error)
    add_part(out, error->what());
  else
    add_count(out, lost.size(), "been lost");
  add_count(out, joined.size(), "joined");
  return out;
}

/// A process that joins needs the results of calls, but not of those in a loop.
void record(strategy_state& state, const std::string& result) {
  state.last_result = result;
  if (state.are_calls_copied())
    ++state.loop_calls;
  else
    state.group->record_result(state.calls++, result);
}

/// Adds what the processes of a view know of the chief's callbacks. The chief's
/// callbacks are not repeated for a step that any of them knows to be
/// processed.
void merge_processed_callbacks(strategy_state& state,
                               const std::vector<located_report>& all) {
  auto& own = state.processed_callbacks;
  if (state.lacks_state) // it has not made the calls that the others count
    own = {};
  for (const auto& x : all) {
    const auto& other = x.processed_callbacks;
    if (x.lacks_state)
      continue;
    if (state.lacks_state || other.call == own.call)
      own = std::max(own, other);
    else if (other.call > own.call) // it has completed the run of this process
      own.end = ~std::uint64_t{0};
  }
}

std::vector<located_report>
gather_reports(const std::shared_ptr<strategy_state>& state,
               const job_call& call) {
  const auto texts = gather_text_once(
    state,
    encode_text(state->calls, state->loop_calls, state->job_id,
                state->processed_callbacks.call, state->processed_callbacks.end,
                state->lacks_state, call.steps ? call.steps() : 0,
                call.report ? call.report() : std::string{}),
    state->callback_timeout); // another process may be in a callback
  std::vector<located_report> out(texts.size());
  for (std::size_t p = 0; p < texts.size(); ++p)
    if (!decode_text(texts[p], out[p].calls, out[p].loop_calls, out[p].job_id,
                     out[p].processed_callbacks.call,
                     out[p].processed_callbacks.end, out[p].lacks_state,
                     out[p].report.steps, out[p].report.text))
      throw_inconsistent("a process sent a malformed report");
  merge_processed_callbacks(*state, out);
  return out;
}

/// Counts the calls of loops in the processes that join: they have not made
/// them. A process that has come to the loop in which the others are begins
/// where they are.
void count_loop_calls(strategy_state& state, std::vector<located_report>& all) {
  std::uint64_t calls = 0, loop_calls = 0;
  for (const auto& x : all)
    if (!x.lacks_state && x.all_calls() >= calls + loop_calls) {
      calls = x.calls;
      loop_calls = x.loop_calls;
    }
  for (auto& x : all)
    if (x.lacks_state)
      x.loop_calls = x.calls < calls ? 0 : loop_calls;
  if (state.lacks_state)
    state.loop_calls = state.calls < calls ? 0 : loop_calls;
}

/// Gives the result of the last call to the processes that have not completed
/// it.
/// @param source    a process that has completed it.
/// @param is_behind this process has completed all calls before it, and no
///        more.
/// @returns true if that completes the call in this process.
bool pass_result(const std::shared_ptr<strategy_state>& state,
                 const job_call& call, std::size_t source, bool is_behind) {
  const auto results =
    gather_text_once(state, is_behind ? std::string{} : state->last_result,
                     state->callback_timeout);
  if (!is_behind)
    return false;
  call.complete(results.at(source));
  record(*state, results[source]);
  return true;
}

/// Completes a call that the job has made before this process has joined.
/// @returns false if no member knows the result.
bool complete_from_log(strategy_state& state, const job_call& call) {
  const auto result = state.group->result_of(state.calls);
  if (!result)
    return false;
  call.complete(*result);
  state.last_result = *result;
  ++state.calls; // the group has the result in its log
  return true;
}

/// What a process tells the others before the state is copied.
struct state_request {
  std::uint64_t runs = 0;
  std::vector<std::string> texts; ///< By observer: `state_text`.
  /// By observer: 1 if this process needs its tensors.
  std::vector<std::uint8_t> needs;
};

/// Gathers the requests of all processes, by process.
std::vector<state_request>
gather_requests(const std::shared_ptr<strategy_state>& state,
                const state_request& own) {
  std::vector<state_request> out;
  for (const auto& text :
       gather_text_once(state, encode_text(own.runs, own.texts, own.needs),
                        state->callback_timeout)) {
    auto& one = out.emplace_back();
    if (!decode_text(text, one.runs, one.texts, one.needs)
        || one.texts.size() != own.texts.size()
        || one.needs.size() != own.texts.size())
      throw_inconsistent("another process has other models or optimizers");
  }
  return out;
}

/// Copies the state of one process to those that lack some of it. All take part
/// in a gather of each tensor that some process needs, to which only that
/// process contributes.
/// @param ahead observer whose tensors this process has already. Null: none.
void copy_state(const std::shared_ptr<strategy_state>& state,
                std::uint32_t source, bool is_receiver,
                const placement_observer* ahead) {
  std::vector<std::shared_ptr<placement_observer>> owners;
  state_request own{.runs = state->runs, .texts = {}, .needs = {}};
  for (const auto& one : state->observers)
    if (auto owner = one.lock()) {
      own.texts.push_back(owner->state_text());
      own.needs.push_back(is_receiver && owner.get() != ahead);
      owners.push_back(std::move(owner));
    }
  const auto requests = gather_requests(state, own);
  const auto& [runs, texts, unused] = requests.at(source);
  std::vector<tensor> parts;
  std::vector<bool> is_wanted; // by part: this process needs it
  for (std::size_t i = 0; i < owners.size(); ++i) {
    auto tensors = owners[i]->state_tensors(texts[i]);
    if (std::ranges::none_of(requests,
                             [&](const auto& x) { return x.needs[i] != 0; }))
      continue;
    for (auto& x : tensors) {
      parts.push_back(std::move(x));
      is_wanted.push_back(own.needs[i] != 0);
    }
  }
  const auto sender = state->placement.job.replicas_of(source).front();
  // Nothing is changed before all of it has arrived, because the sender may be
  // lost.
  std::vector<tensor> received(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (auto one = gather_from(state, sender, parts[i]); is_wanted[i])
      received[i] = std::move(one);
  if (!parts.empty())
    record_event(state->recorder, {.kind = flight_event_kind::state_copied,
                                   .bytes = bytes_of(parts)});
  if (!is_receiver)
    return;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (is_wanted[i])
      parts[i].copy_from(received[i]);
  for (std::size_t i = 0; i < owners.size(); ++i)
    owners[i]->on_copied(texts[i]);
  state->runs = runs;
}

/// Ends the catching up if the processes that had completed a call were lost
/// before the others had copied their state. The others make the call again. A
/// process that joins and knows its result already cannot take part in that, so
/// it leaves the job. Several leave one after the other, so that those that
/// remain are a majority.
/// @param all   the reports, by process.
/// @param calls the highest number of completed calls that a process knows of.
[[noreturn]] void leave_or_repeat_call(const strategy_state& state,
                                       std::span<const located_report> all,
                                       std::uint64_t calls) {
  std::uint64_t with_state = 0;
  bool is_state_known = false;
  for (const auto& x : all)
    if (!x.lacks_state) {
      is_state_known = true;
      with_state = std::max(with_state, x.all_calls());
    }
  if (!is_state_known)
    throw_inconsistent("no process has the state of the job");
  if (calls - with_state > 1)
    throw_inconsistent("the processes that have the state of the job are more "
                       "than one call behind");
  const auto first =
    std::ranges::find(all, calls, &located_report::all_calls) - all.begin();
  if (state.placement.process == static_cast<std::uint32_t>(first)) {
    state.group->leave_at_once();
    throw job_error(ec::cancelled,
                    "this process joins, and the processes with the newest "
                    "state of the job were lost before it could copy that "
                    "state; start it again");
  }
  throw job_error(ec::peer_lost, "the processes that had completed call "
                                   + std::to_string(calls - 1)
                                   + " of the job were lost, so it is made "
                                     "again");
}

/// Brings the processes of a view to the same call and the same state.
/// @returns true if that completes the call in this process.
bool catch_up(const std::shared_ptr<strategy_state>& state,
              const job_call& call) {
  // The processes may be in different calls.
  const current_call_guard agreement{
    *state, {.name = "the agreement after a change of the view"}};
  std::vector<located_report> all;
  for (;;) {
    all = gather_reports(state, call);
    count_loop_calls(*state, all);
    record_event(state->recorder,
                 {.kind = flight_event_kind::positions_gathered});
    const auto most =
      std::ranges::max(all, {}, &located_report::all_calls).all_calls();
    const auto is_source = [&](const located_report& x) {
      return !x.lacks_state && x.all_calls() == most;
    };
    const auto source = std::ranges::find_if(all, is_source) - all.begin();
    if (std::size_t(source) == all.size())
      leave_or_repeat_call(*state, all, most);
    state->job_id = all[std::size_t(source)].job_id;
    const auto is_behind = [&](const located_report& x) {
      return x.all_calls() < most;
    };
    if (std::ranges::none_of(all, is_behind))
      break;
    const auto has_old_call = [&](const located_report& x) {
      return is_behind(x) && !x.lacks_state;
    };
    if (std::ranges::any_of(all, [&](const located_report& x) {
          return has_old_call(x) && most - x.all_calls() > 1;
        }))
      throw_inconsistent("two processes are more than one call apart");
    if (std::ranges::any_of(all, has_old_call)
        && pass_result(state, call, std::size_t(source),
                       state->all_calls() + 1 == most))
      return true;
    if (state->all_calls() < most) { // and joins
      if (!complete_from_log(*state, call))
        throw_inconsistent("the result of a call is not known any more");
      return true;
    }
  }
  // A process with the most steps is the source.
  std::size_t source = all.size();
  bool is_needed = false;
  for (std::size_t p = 0; p < all.size(); ++p) {
    is_needed |=
      all[p].lacks_state || all[p].report.steps != all.front().report.steps;
    if (!all[p].lacks_state
        && (source == all.size()
            || all[p].report.steps > all[source].report.steps))
      source = p;
  }
  const auto own_steps = call.steps ? call.steps() : 0;
  const auto& latest = all.at(source).report;
  if (is_needed)
    copy_state(state, static_cast<std::uint32_t>(source),
               state->lacks_state || own_steps < latest.steps,
               state->lacks_state && call.copied_ahead
                 ? call.copied_ahead(latest)
                 : nullptr);
  if (call.resume)
    call.resume(latest);
  if (std::exchange(state->lacks_state, false) && state->launcher)
    state->launcher->report_begun();
  if (is_needed) // no process completes the call before all have the state
    gather_text_once(state, {}, state->callback_timeout);
  state->must_catch_up = false;
  record_event(state->recorder, {.kind = flight_event_kind::view_entered});
  return false;
}

/// A process that joins waits for the end of a call in which it cannot copy the
/// state ahead, such as an evaluation.
/// @returns true if the call is completed in this process.
bool wait_for_result(strategy_state& state, const job_call& call) {
  const auto end = wait_clock::now() + short_call;
  while (wait_clock::now() < end) {
    std::this_thread::sleep_for(poll_interval);
    if (complete_from_log(state, call))
      return true;
  }
  return false;
}

/// Enters the view after a loss.
/// @returns false if the error is none, or there is no next view.
bool recover(strategy_state& state, std::uint64_t steps,
             const job_error& error) {
  const auto before = state.group->members();
  if (!is_loss(error) || !enter_next_view(state, steps))
    return false;
  log_new_view(state, state.is_one_process
                        ? error.what()
                        : describe_change(state, before, {}, &error));
  return true;
}

void make_call_in_views(const std::shared_ptr<strategy_state>& state,
                        const job_call& call) {
  const in_call_guard inside{*state, call.name};
  recovery_scope recovery{*state};
  recovery.set(state->must_catch_up || state->lacks_state);
  if (state->lacks_state && state->group->is_joining()) {
    if (complete_from_log(*state, call))
      return;
    if (copies_ahead(*state)
        && (call.prepare ? call.prepare() && complete_from_log(*state, call)
                         : wait_for_result(*state, call)))
      return;
    const auto before = state->group->members();
    if (!enter_next_view(*state, 0))
      throw_inconsistent("the process that joins found no view");
    log_new_view(*state, describe_change(*state, before, {}, nullptr));
  }
  for (;;) {
    try {
      if (state->must_catch_up && catch_up(state, call))
        return;
      recovery.set(false);
      const current_call_guard runs{
        *state, {call.name, state->all_calls(), call.failure}};
      record(*state, call.run());
      return;
    } catch (const job_error& e) {
      recovery.set(true);
      if (!recover(*state, call.steps ? call.steps() : 0, e))
        throw;
    }
  }
}

void enter_pending_view_in_views(const std::shared_ptr<strategy_state>& state) {
  const in_call_guard inside{*state, "a change of the view"};
  job_call none;
  none.complete = [](const std::string&) {
    throw_inconsistent("this process lacks a call that it does not make");
  };
  if (state->group->is_view_change_pending()) {
    const auto before = state->group->members();
    if (!enter_next_view(*state, 0))
      throw job_error(ec::peer_lost, "the processes of the job could not agree "
                                     "on a view after a loss");
    log_new_view(*state, describe_change(*state, before, {}, nullptr));
  }
  while (state->must_catch_up)
    try {
      catch_up(state, none);
    } catch (const job_error& e) {
      if (!recover(*state, 0, e))
        throw;
    }
}

bool let_leave_in_views(const std::shared_ptr<strategy_state>& state,
                        const std::vector<std::uint64_t>& leavers) {
  using enum replica_group::leave_result;
  if (state->lacks_state && state->group->is_joining())
    return false;
  const auto before = state->group->members();
  recovery_scope recovery{*state};
  recovery.set(true);
  switch (state->group->let_leave(leavers, {state->all_calls(), 0},
                                  state->callback_timeout)) {
    case unchanged:
      return false;
    case left:
      report_leave(*state);
      return true;
    case entered:
      break;
  }
  on_next_view(*state);
  log_new_view(*state, describe_change(*state, before, leavers, nullptr));
  return false;
}

} // namespace

bool copies_ahead(const strategy_state& state) {
  if (!state.source || state.are_calls_copied())
    return false;
  std::size_t bytes = 0;
  for (const auto& one : state.observers)
    if (const auto owner = one.lock())
      bytes += bytes_of(owner->state_tensors(owner->state_text()));
  return bytes >= state.copy_ahead_bytes;
}

void check_idle(const strategy_state& state, const std::string& call) {
  if (const auto* current = current_execution_scope();
      current && current->replica)
    throw std::logic_error(call
                           + " was called in a replica's function: a step "
                             "cannot run another one inside it");
  check_no_step_callback(state, call);
  if (state.running || state.in_call)
    throw_busy(state, call);
}

void make_call(const std::shared_ptr<strategy_state>& state,
               const job_call& call) {
  try {
    make_call_in_views(state, call);
  } catch (const device_lost& e) {
    on_lost_device(*state, e);
  } catch (...) {
    on_job_failure(*state, std::current_exception());
    throw;
  }
}

void enter_pending_view(const std::shared_ptr<strategy_state>& state) {
  if (state->lacks_state)
    return; // no member of the job yet
  try {
    enter_pending_view_in_views(state);
  } catch (const device_lost& e) {
    on_lost_device(*state, e);
  } catch (...) {
    on_job_failure(*state, std::current_exception());
    throw;
  }
}

bool let_leave(const std::shared_ptr<strategy_state>& state,
               const std::vector<std::uint64_t>& leavers) {
  try {
    return let_leave_in_views(state, leavers);
  } catch (const device_lost& e) {
    on_lost_device(*state, e);
  } catch (...) {
    on_job_failure(*state, std::current_exception());
    throw;
  }
}

bool is_call_mismatch(const job_error& error) {
  return error.report().kind == failure_kind::runs_differ;
}

void report_leave(const strategy_state& state) {
  if (state.launcher)
    state.launcher->report_left();
}

} // namespace troupe
