#include "troupe/strategies/coordinator/state_machine.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe::coordinator {

reaction state_machine::schedule(payload closure) {
  reaction out;
  const auto ordinal = next_++;
  unfinished_[ordinal].function = std::move(closure);
  waiting_.insert(ordinal);
  start_waiting(out);
  return out;
}

/// Gives the closures that wait to workers with a free place.
void state_machine::start_waiting(reaction& out) {
  while (!waiting_.empty() && !error_) {
    // The worker with the most free places.
    const auto free = std::ranges::max_element(
      places_, {}, [](const auto& x) { return x.second; });
    if (free == places_.end() || free->second == 0)
      return;
    const auto ordinal = waiting_.extract(waiting_.begin()).value();
    auto& one = unfinished_[ordinal];
    --free->second;
    one.worker = free->first;
    ++one.attempt;
    out.emplace_back(send_run{free->first, run_of(ordinal, one), one.function});
  }
}

reaction state_machine::on_worker(std::uint64_t worker, std::uint32_t places) {
  reaction out;
  if (places_.try_emplace(worker, places).second)
    start_waiting(out);
  return out;
}

reaction state_machine::on_worker_lost(std::uint64_t worker) {
  reaction out;
  if (places_.erase(worker) == 0)
    return out;
  for (auto& [ordinal, one] : unfinished_)
    if (one.worker == worker) {
      one.worker.reset();
      waiting_.insert(ordinal);
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
      || found->second.attempt != which.attempt)
    return nullptr;
  return &found->second;
}

/// The worker of a closure does not execute it any more.
void state_machine::release(closure& one) {
  ++places_[*one.worker];
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
  one->function.reset();
  one->has_ended = true;
  one->result = std::move(result);
  one->shards = {received.shards.begin(), received.shards.end()};
  for (const auto shard : one->shards)
    out.emplace_back(send_decision{shard, decision_on(ordinal, *one)});
  finish_if_decided(out, ordinal);
  report_if_stopped(out);
  start_waiting(out);
  return out;
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
    unfinished_.erase(ordinal);
    out.emplace_back(cancelled{ordinal});
  } else {
    error_ = {ordinal, std::move(error)};
    unfinished_.erase(ordinal);
    cancel_waiting(out);
    for (const auto& [other, running] : unfinished_)
      if (running.worker)
        out.emplace_back(
          send_cancel{*running.worker, {{other, running.attempt}}});
  }
  report_if_stopped(out);
  return out;
}

/// Cancels all closures that wait.
void state_machine::cancel_waiting(reaction& out) {
  for (const auto ordinal : std::exchange(waiting_, {})) {
    unfinished_.erase(ordinal);
    out.emplace_back(cancelled{ordinal});
  }
}

reaction state_machine::on(std::uint64_t worker, const stopped& received) {
  reaction out;
  auto* const one = find_running(worker, received.execution);
  if (!one || !error_)
    return out;
  release(*one);
  unfinished_.erase(received.execution.ordinal);
  out.emplace_back(cancelled{received.execution.ordinal});
  report_if_stopped(out);
  return out;
}

/// Reports the error when no closure is executed.
void state_machine::report_if_stopped(reaction& out) {
  const auto runs = [](const auto& x) { return x.second.worker.has_value(); };
  if (!error_ || is_reported_ || std::ranges::any_of(unfinished_, runs))
    return;
  is_reported_ = true;
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
      out.emplace_back(send_cancel{*one.worker, {{ordinal, one.attempt}}});
    else if (one.worker)
      out.emplace_back(
        send_run{*one.worker, run_of(ordinal, one), one.function});
    for (const auto shard : one.shards)
      out.emplace_back(send_decision{shard, decision_on(ordinal, one)});
  }
  return out;
}

} // namespace troupe::coordinator
