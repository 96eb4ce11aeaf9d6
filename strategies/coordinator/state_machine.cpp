#include "troupe/strategies/coordinator/state_machine.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>

namespace troupe::coordinator {

reaction state_machine::schedule(payload closure, bool waits_for_others) {
  reaction out;
  const auto ordinal = next_++;
  if (auto found = earlier_.ends.extract(ordinal)) {
    end(out, std::move(found.mapped()));
  } else if (const auto& errors = earlier_.errors; !errors.empty()) {
    // Not later than the next recorded error, so this error has cancelled it.
    if (errors.begin()->second.ordinal != ordinal)
      out.emplace_back(cancelled{ordinal});
  } else {
    const auto& one =
      unfinished_[ordinal] = {.function = std::move(closure),
                              .waits_for_others = waits_for_others,
                              .execution = {ordinal, 0, life_}};
    wait_for_worker(ordinal, one);
    start_waiting(out);
  }
  repeat_error(out);
  return out;
}

/// Reports the error that an earlier life has recorded after this number of
/// calls of `schedule`.
void state_machine::repeat_error(reaction& out) {
  const auto found = earlier_.errors.extract(next_);
  if (!found)
    return;
  error_ = {found.mapped().ordinal, found.mapped().error};
  is_reported_ = true;
  out.emplace_back(error_ready{error_->ordinal, error_->error});
}

void state_machine::wait_for_worker(std::uint64_t ordinal, const closure& one) {
  (one.waits_for_others ? waiting_.without_place : waiting_.with_place)
    .insert(ordinal);
}

/// Gives the closures that wait to workers, those with a place to workers with
/// a free one.
void state_machine::start_waiting(reaction& out) {
  if (workers_.empty() || error_)
    return;
  auto& [with_place, without_place] = waiting_;
  while (!without_place.empty()) {
    const auto on = std::ranges::min_element(
      workers_, {}, [](const auto& x) { return x.second.without_place; });
    start(out, on->first, without_place.extract(without_place.begin()).value());
  }
  while (!with_place.empty()) {
    // The most free places, and of equal ones the fewest closures beside.
    const auto on = std::ranges::max_element(workers_, {}, [](const auto& x) {
      return std::pair{x.second.free_places,
                       -std::int64_t{x.second.without_place}};
    });
    if (on->second.free_places == 0)
      return;
    start(out, on->first, with_place.extract(with_place.begin()).value());
  }
}

/// Begins the next attempt of a closure.
void state_machine::start(reaction& out, std::uint64_t worker,
                          std::uint64_t ordinal) {
  auto& one = unfinished_[ordinal];
  auto& on = workers_[worker];
  if (one.waits_for_others)
    ++on.without_place;
  else
    --on.free_places;
  one.worker = worker;
  ++one.execution.attempt;
  out.emplace_back(send_run{worker, run_of(one), one.function});
}

reaction state_machine::on_worker(std::uint64_t worker, std::uint32_t places) {
  reaction out;
  if (!workers_.try_emplace(worker, worker_load{places}).second)
    return out;
  start_waiting(out);
  if (!error_)
    balance(out, worker);
  return out;
}

/// Moves closures that wait for others to a worker that has joined.
void state_machine::balance(reaction& out, std::uint64_t worker) {
  for (;;) {
    const auto most = std::ranges::max_element(
      workers_, {}, [](const auto& x) { return x.second.without_place; });
    if (most->second.without_place < workers_[worker].without_place + 2)
      return;
    // The last one, which is likely to have done the least.
    const auto moved = std::ranges::find_if(
      unfinished_.rbegin(), unfinished_.rend(), [&](const auto& x) {
        return x.second.waits_for_others && x.second.worker == most->first;
      });
    out.emplace_back(send_cancel{most->first, {moved->second.execution}});
    release(moved->second);
    start(out, worker, moved->first);
  }
}

reaction state_machine::on_worker_lost(std::uint64_t worker) {
  reaction out;
  if (workers_.erase(worker) == 0)
    return out;
  for (auto& [ordinal, one] : unfinished_)
    if (one.worker == worker) {
      one.worker.reset();
      wait_for_worker(ordinal, one);
    }
  if (error_)
    cancel_waiting(out);
  report_if_stopped(out);
  start_waiting(out);
  return out;
}

/// Returns the closure of an execution if this worker executes it.
state_machine::closure* state_machine::find_running(std::uint64_t worker,
                                                    const execution& which) {
  const auto found = unfinished_.find(which.ordinal);
  if (found == unfinished_.end() || found->second.worker != worker
      || found->second.execution != which)
    return nullptr;
  return &found->second;
}

/// The worker of a closure does not execute it any more.
void state_machine::release(closure& one) {
  auto& on = workers_[*one.worker];
  if (one.waits_for_others)
    --on.without_place;
  else
    ++on.free_places;
  one.worker.reset();
}

reaction state_machine::on(std::uint64_t worker, const ended& received,
                           payload result) {
  reaction out;
  const auto ordinal = received.execution.ordinal;
  auto* const one = find_running(worker, received.execution);
  if (!one)
    return out;
  const auto& with = received.shards;
  if (std::ranges::adjacent_find(with, std::greater_equal{}) != with.end()
      || (!with.empty() && with.back() >= shards_)) {
    out.emplace_back(protocol_error{
      worker, "the end of closure " + std::to_string(ordinal)
                + " names shards that do not exist, or one of them twice"});
    return out;
  }
  release(*one);
  record_end record{received, std::move(result)};
  out.emplace_back(record);
  end(out, std::move(record));
  report_if_stopped(out);
  start_waiting(out);
  return out;
}

/// A closure has ended in this life or an earlier one, and that is recorded.
void state_machine::end(reaction& out, record_end recorded) {
  const auto ordinal = recorded.end.execution.ordinal;
  const auto& with = recorded.end.shards;
  auto& one = unfinished_[ordinal];
  one = {.execution = recorded.end.execution,
         .has_ended = true,
         .result = std::move(recorded.result),
         .shards = {with.begin(), with.end()}};
  for (const auto shard : one.shards)
    out.emplace_back(send_decision{shard, decision_on(one)});
  finish_if_decided(out, ordinal);
}

void state_machine::finish_if_decided(reaction& out, std::uint64_t ordinal) {
  const auto found = unfinished_.find(ordinal);
  if (found == unfinished_.end() || !found->second.has_ended
      || !found->second.shards.empty())
    return;
  out.emplace_back(result_ready{ordinal, std::move(found->second.result)});
  unfinished_.erase(found);
}

reaction state_machine::on(const decided& received) {
  reaction out;
  const auto found = unfinished_.find(received.ordinal);
  if (found == unfinished_.end() || !found->second.has_ended)
    return out;
  found->second.shards.erase(received.shard);
  finish_if_decided(out, received.ordinal);
  report_if_stopped(out);
  return out;
}

reaction state_machine::on(std::uint64_t worker, const failed& received,
                           payload error) {
  reaction out;
  const auto ordinal = received.execution.ordinal;
  auto* const one = find_running(worker, received.execution);
  if (!one)
    return out;
  release(*one);
  if (error_) { // only the first one is reported
    out.emplace_back(cancelled{ordinal});
  } else {
    error_ = {ordinal, std::move(error)};
    cancel_waiting(out);
    for (const auto& [other, running] : unfinished_)
      if (running.worker)
        out.emplace_back(send_cancel{*running.worker, {running.execution}});
  }
  report_if_stopped(out);
  return out;
}

/// Cancels all closures that wait.
void state_machine::cancel_waiting(reaction& out) {
  const auto all = std::exchange(waiting_, {});
  for (const auto* some : {&all.with_place, &all.without_place})
    for (const auto ordinal : *some)
      out.emplace_back(cancelled{ordinal});
}

reaction state_machine::on(std::uint64_t worker, const stopped& received) {
  reaction out;
  auto* const one = find_running(worker, received.execution);
  if (!one || !error_)
    return out;
  release(*one);
  out.emplace_back(cancelled{received.execution.ordinal});
  report_if_stopped(out);
  return out;
}

reaction state_machine::on(std::uint64_t worker, const unknown& received) {
  reaction out;
  const auto* const one = find_running(worker, received.execution);
  if (one && !error_)
    out.emplace_back(send_run{worker, run_of(*one), one->function});
  return out;
}

/// Records and reports the error when no closure is executed. The closures that
/// the error has cancelled are unfinished until then. A later life executes
/// them if the error is not recorded, so no message may say that they are done.
void state_machine::report_if_stopped(reaction& out) {
  const auto runs = [](const auto& x) {
    return x.second.worker.has_value() || x.second.has_ended;
  };
  if (!error_ || is_reported_ || std::ranges::any_of(unfinished_, runs))
    return;
  is_reported_ = true;
  out.emplace_back(record_error{error_->ordinal, next_, error_->error});
  std::erase_if(unfinished_, [](const auto& x) { return !x.second.has_ended; });
  out.emplace_back(error_ready{error_->ordinal, error_->error});
}

void state_machine::resume() {
  error_.reset();
  is_reported_ = false;
}

reaction state_machine::on_timeout() {
  reaction out;
  for (const auto& [ordinal, one] : unfinished_) {
    if (one.worker && error_)
      out.emplace_back(send_cancel{*one.worker, {one.execution}});
    else if (one.worker)
      out.emplace_back(send_query{*one.worker, {one.execution}});
    for (const auto shard : one.shards)
      out.emplace_back(send_decision{shard, decision_on(one)});
  }
  return out;
}

reaction state_machine::forget_below(std::uint64_t below) {
  if (error_ || below > done_below())
    throw std::logic_error("closures below " + std::to_string(below)
                           + " are not done, so they cannot be forgotten");
  return {forget_records{below}};
}

} // namespace troupe::coordinator
