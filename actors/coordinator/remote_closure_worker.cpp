#include "troupe/actors/coordinator/remote_closure_worker.hpp"

#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/exception_text.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

remote_closure_worker_state::~remote_closure_worker_state() {
  for (auto& [which, one] : open)
    if (one.what)
      one.what->stopped_attempts = ~std::uint32_t{0};
  if (worker)
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
}

// -- requests -----------------------------------------------------------------

remote_closure_worker_state::promise
remote_closure_worker_state::poll(const remote_work& work,
                                  const tensors& inputs) {
  auto answer = self->make_response_promise<remote_ends, tensors>();
  const auto now = self->clock().now();
  const bool is_large = batch_bytes(inputs) > max_batch_bytes;
  polls.push_back({answer, is_large ? now : now + poll_timeout});
  if (setup && !setup->problem.empty()) {
    reject_polls();
    return answer;
  }
  for (const auto& one : work.fetched) {
    kept.erase(one);
    if (unconfirmed == one)
      unconfirmed.reset();
  }
  if (const auto problem = begin(work.runs, inputs); !problem.empty()) {
    polls.pop_back();
    answer.deliver(caf::make_error(ec::protocol, problem));
    return answer;
  }
  for (const auto& one : work.cancelled)
    cancel(one);
  answer_polls_later();
  if (!std::exchange(timer_pending, true))
    self->delayed_send(self, poll_timeout, atom::wake_v);
  return answer;
}

std::string
remote_closure_worker_state::begin(const std::vector<remote_run>& runs,
                                   const tensors& inputs) {
  if (unanswered() + runs.size() > max_executions_on_node)
    return "a worker has at most " + std::to_string(max_executions_on_node)
           + " executions at once";
  std::size_t needed = 0;
  for (const auto& one : runs)
    needed += one.num_inputs;
  if (needed != inputs.size())
    return "a message has " + std::to_string(inputs.size()) + " inputs for "
           + std::to_string(needed);
  auto first = inputs.begin();
  for (const auto& one : runs) {
    const auto last = first + one.num_inputs;
    const auto [found, is_new] = open.try_emplace(
      one.run.execution,
      open_run{one.run, one.closure_name, {first, last}, nullptr});
    if (is_new && setup)
      start(found->second);
    first = last;
  }
  return {};
}

void remote_closure_worker_state::start(open_run& one) {
  const auto found = setup->closures.find(one.closure_name);
  if (found == setup->closures.end()) {
    std::string names;
    for (const auto& [name, fn] : setup->closures)
      names += (names.empty() ? "" : ", ") + name;
    return fail(one.run.execution, "no closure \"" + one.closure_name
                                     + "\" is registered; there are: " + names);
  }
  one.what = std::make_shared<closure>(
    [fn = found->second, inputs = std::move(one.inputs)](
      closure_environment& self) -> coordinator::payload {
      return std::make_shared<const tensors>(fn(self, inputs));
    },
    nullptr);
  self->send(worker, one.run, one.what);
}

/// An execution that is not open has ended: its end is in an answer.
void remote_closure_worker_state::cancel(const coordinator::execution& which) {
  const auto found = open.find(which);
  if (found == open.end())
    return;
  if (!found->second.what)
    return on_stopped(which);
  found->second.what->stopped_attempts = which.attempt;
  self->send(worker, coordinator::cancel{which});
}

caf::result<tensors>
remote_closure_worker_state::fetch(const coordinator::execution& from) {
  const auto found = kept.find(from);
  if (found == kept.end())
    return caf::make_error(ec::protocol, std::string{"the worker keeps no "
                                                     "results of this "
                                                     "execution"});
  unconfirmed = from;
  return found->second;
}

caf::typed_response_promise<remote_closure_worker_state::names>
remote_closure_worker_state::info() {
  asked.push_back(self->make_response_promise<names>());
  auto answer = asked.back();
  if (setup)
    answer_info();
  return answer;
}

void remote_closure_worker_state::answer_info() {
  names all;
  for (const auto& [name, fn] : setup->closures)
    all.push_back(name);
  for (auto& one : std::exchange(asked, {}))
    if (setup->problem.empty())
      one.deliver(all);
    else
      one.deliver(caf::make_error(ec::refused, setup->problem));
}

void remote_closure_worker_state::on_setup(const shared_setup& x) {
  setup = x;
  if (!setup->problem.empty()) {
    answer_info();
    return reject_polls();
  }
  worker = setup->spawn(caf::actor_cast<closure_worker_owner_actor>(self));
  self->monitor(worker);
  answer_info();
  for (auto next = open.begin(); next != open.end();)
    start((next++)->second); // it may remove the element
}

// -- ends ---------------------------------------------------------------------

remote_closure_worker_state::batch&
remote_closure_worker_state::batch_for(std::size_t bytes) {
  answer_polls_later();
  if (ended.empty() || ended.back().bytes + bytes > max_batch_bytes)
    ended.emplace_back();
  ended.back().bytes += bytes;
  return ended.back();
}

std::size_t remote_closure_worker_state::unanswered() const {
  std::size_t count = open.size() + kept.size();
  for (const auto& one : ended)
    count += one.count();
  return count;
}

/// An execution that reports faster than the coordinator polls fails.
void remote_closure_worker_state::on_report(const coordinator::execution& from,
                                            const tensors& what) {
  const auto found = open.find(from);
  if (found == open.end())
    return;
  std::size_t waiting = 0;
  for (const auto& one : ended)
    waiting += one.ends.reports.size();
  if (waiting >= max_waiting_reports) {
    found->second.what->stopped_attempts = from.attempt;
    return fail(from, "it has " + std::to_string(waiting)
                        + " reports that the coordinator has not fetched");
  }
  constexpr std::size_t of_report = 64; // bounds the number of reports too
  auto& to = batch_for(batch_bytes(what) + of_report);
  to.ends.reports.push_back({from, static_cast<std::uint32_t>(what.size())});
  to.reports.insert(to.reports.end(), what.begin(), what.end());
}

void remote_closure_worker_state::on_ended(const coordinator::ended& x,
                                           const coordinator::payload& result) {
  auto found = open.extract(x.execution);
  if (!found)
    return;
  // This process does not learn more about it.
  *found.mapped().what->counted_attempt = x.execution.attempt;
  const auto& results = *static_cast<const tensors*>(result.get());
  const auto bytes = batch_bytes(results);
  if (bytes > max_batch_bytes) {
    kept.emplace(x.execution, results);
    batch_for(0).ends.ended.push_back({x, 0, true});
    return;
  }
  auto& to = batch_for(bytes);
  to.ends.ended.push_back({x, static_cast<std::uint32_t>(results.size())});
  to.results.insert(to.results.end(), results.begin(), results.end());
}

void remote_closure_worker_state::on_failed(const coordinator::execution& which,
                                            const closure_failure& failure) {
  if (open.contains(which))
    fail(which, exception_text(failure.thrown));
}

void remote_closure_worker_state::fail(coordinator::execution which,
                                       const std::string& text) {
  open.erase(which);
  auto shortened = text.substr(0, max_failure_bytes);
  batch_for(shortened.size())
    .ends.failed.push_back({which, std::move(shortened)});
}

void remote_closure_worker_state::on_stopped(
  const coordinator::execution& which) {
  if (open.erase(which) > 0)
    batch_for(0).ends.stopped.push_back({which});
}

// -- answers ------------------------------------------------------------------

void remote_closure_worker_state::answer_polls_later() {
  if (!std::exchange(next_pending, true))
    self->send(self, atom::next_v);
}

void remote_closure_worker_state::answer_polls() {
  next_pending = false;
  const auto now = self->clock().now();
  while (!unconfirmed && !polls.empty()
         && (!ended.empty() || polls.size() > 1 || polls.front().due <= now)) {
    batch next;
    if (!ended.empty()) {
      next = std::move(ended.front());
      ended.pop_front();
    }
    auto beside = std::move(next.reports);
    beside.insert(beside.end(), next.results.begin(), next.results.end());
    polls.front().answer.deliver(std::move(next.ends), std::move(beside));
    polls.pop_front();
  }
}

/// While results are fetched no timer is needed: the confirmation is a poll.
void remote_closure_worker_state::on_timer() {
  answer_polls();
  timer_pending = !polls.empty() && !unconfirmed;
  if (timer_pending)
    self->delayed_send(self,
                       std::max(polls.front().due - self->clock().now(),
                                time_point::duration::zero()),
                       atom::wake_v);
}

void remote_closure_worker_state::reject_polls() {
  for (auto& one : std::exchange(polls, {}))
    one.answer.deliver(caf::make_error(ec::refused, setup->problem));
}

remote_closure_worker_internal_actor::behavior_type
remote_closure_worker(remote_closure_worker_internal_actor::stateful_pointer<
                      remote_closure_worker_state>
                        self) {
  install_exception_handler(self);
  self->set_down_handler( // the worker has ended
    [self](const caf::down_msg& x) { self->quit(x.reason); });
  return {
    [self](std::uint64_t, const coordinator::execution& from,
           const tensors& what) { self->state.on_report(from, what); },
    [self](std::uint64_t, const coordinator::ended& x,
           const coordinator::payload& result) {
      self->state.on_ended(x, result);
    },
    [self](std::uint64_t, const coordinator::failed& x,
           const closure_failure& failure) {
      self->state.on_failed(x.execution, failure);
    },
    [self](std::uint64_t, const coordinator::stopped& x) {
      self->state.on_stopped(x.execution);
    },
    [self](const remote_work& x, const tensors& inputs) {
      return self->state.poll(x, inputs);
    },
    [self](atom::results, const coordinator::execution& x) {
      return self->state.fetch(x);
    },
    [self](atom::info) { return self->state.info(); },
    [self](const shared_setup& x) { self->state.on_setup(x); },
    [self](atom::next) { self->state.answer_polls(); },
    [self](atom::wake) { self->state.on_timer(); },
  };
}

} // namespace troupe
