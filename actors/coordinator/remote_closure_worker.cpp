#include "troupe/actors/coordinator/remote_closure_worker.hpp"

#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/protocol/type_ids.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <utility>

namespace troupe {

namespace {

/// Maximum size of the text of an error.
constexpr std::size_t max_error_bytes = 4096;

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
  }
}

} // namespace

remote_closure_worker_state::~remote_closure_worker_state() {
  for (auto& [which, one] : open)
    if (one.what)
      one.what->stopped_attempts = ~std::uint32_t{0};
  if (worker)
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
}

// -- requests -----------------------------------------------------------------

remote_closure_worker_state::promise
remote_closure_worker_state::run(const remote_runs& what,
                                 const tensors& inputs) {
  requests.push_back({self->make_response_promise<remote_ends, tensors>()});
  auto answer = requests.back().answer;
  std::size_t next = 0;
  for (const auto& one : what.runs) {
    if (one.inputs > inputs.size() - next) {
      fail(one.run.execution, "the request has fewer inputs than it says");
      continue;
    }
    const auto first = inputs.begin() + static_cast<std::ptrdiff_t>(next);
    next += one.inputs;
    const auto [found, is_new] = open.try_emplace(
      one.run.execution,
      open_run{one.run, one.closure, {first, first + one.inputs}, nullptr});
    if (is_new && setup)
      start(found->second);
  }
  if (setup && !setup->problem.empty())
    reject_requests();
  else if (!ends.empty())
    answer_later();
  if (!std::exchange(wake_pending, true))
    self->delayed_send(self, answer_interval, atom::wake_v);
  return answer;
}

void remote_closure_worker_state::reject_requests() {
  for (auto& one : std::exchange(requests, {}))
    one.answer.deliver(caf::make_error(ec::refused, setup->problem));
}

void remote_closure_worker_state::start(open_run& one) {
  if (!setup->problem.empty())
    return;
  const auto found = setup->closures.find(one.name);
  if (found == setup->closures.end()) {
    std::string names;
    for (const auto& [name, fn] : setup->closures)
      names += (names.empty() ? "" : ", ") + name;
    return fail(one.run.execution, "no closure \"" + one.name
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

void remote_closure_worker_state::answer_later() {
  if (!std::exchange(next_pending, true))
    self->send(self, atom::next_v);
}

void remote_closure_worker_state::answer_next() {
  next_pending = false;
  if (!ends.empty() && !requests.empty())
    answer_first();
}

void remote_closure_worker_state::answer_first() {
  requests.front().answer.deliver(std::exchange(ends, {}),
                                  std::exchange(results, {}));
  requests.pop_front();
  result_bytes = 0;
}

void remote_closure_worker_state::answer_after_interval() {
  wake_pending = false;
  while (!requests.empty() && requests.front().has_waited)
    answer_first();
  for (auto& one : requests)
    one.has_waited = true;
  if (!requests.empty() && !std::exchange(wake_pending, true))
    self->delayed_send(self, answer_interval, atom::wake_v);
}

caf::result<tensors>
remote_closure_worker_state::take_kept(const coordinator::execution& from) {
  auto found = kept.extract(from);
  if (!found)
    return caf::make_error(ec::invalid, std::string{"the worker has no results "
                                                    "of this execution"});
  return std::move(found.mapped());
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

void remote_closure_worker_state::cancel(const coordinator::cancel& x) {
  const auto found = open.find(x.execution);
  if (found == open.end())
    return;
  if (!found->second.what)
    return on_stopped(x.execution);
  found->second.what->stopped_attempts = x.execution.attempt;
  self->send(worker, x);
}

void remote_closure_worker_state::on_setup(const shared_setup& x) {
  setup = x;
  answer_info();
  if (!setup->problem.empty())
    return reject_requests();
  worker = setup->spawn(caf::actor_cast<closure_worker_owner_actor>(self));
  self->monitor(worker);
  for (auto next = open.begin(); next != open.end();)
    start((next++)->second); // it may remove the element
}

// -- ends ---------------------------------------------------------------------

void remote_closure_worker_state::on_ended(const coordinator::ended& x,
                                           const coordinator::payload& result) {
  auto found = open.extract(x.execution);
  if (!found)
    return;
  // This process does not learn more about it.
  *found.mapped().what->counted_attempt = x.execution.attempt;
  const auto& own = *static_cast<const tensors*>(result.get());
  const auto bytes = batch_bytes(own);
  const bool is_kept = result_bytes + bytes > max_batch_bytes;
  ends.ended.push_back(
    {x, is_kept ? 0 : static_cast<std::uint32_t>(own.size()), is_kept});
  if (is_kept) {
    kept.emplace(x.execution, own);
  } else {
    result_bytes += bytes;
    results.insert(results.end(), own.begin(), own.end());
  }
  answer_later();
}

void remote_closure_worker_state::on_failed(const coordinator::execution& which,
                                            const closure_failure& failure) {
  fail(which, text_of(failure.thrown));
}

void remote_closure_worker_state::fail(const coordinator::execution& which,
                                       const std::string& text) {
  open.erase(which);
  ends.failed.push_back({which, text.substr(0, max_error_bytes)});
  answer_later();
}

void remote_closure_worker_state::on_stopped(
  const coordinator::execution& which) {
  if (open.erase(which) == 0)
    return;
  ends.stopped.push_back({which});
  answer_later();
}

remote_closure_worker_internal_actor::behavior_type
remote_closure_worker(remote_closure_worker_internal_actor::stateful_pointer<
                      remote_closure_worker_state>
                        self) {
  install_exception_handler(self);
  self->set_down_handler( // the worker has ended
    [self](const caf::down_msg& x) { self->quit(x.reason); });
  return {
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
    [self](const remote_runs& x, const tensors& inputs) {
      return self->state.run(x, inputs);
    },
    [self](const coordinator::execution& x) {
      return self->state.take_kept(x);
    },
    [self](const coordinator::cancel& x) { self->state.cancel(x); },
    [self](atom::info) { return self->state.info(); },
    [self](const shared_setup& x) { self->state.on_setup(x); },
    [self](atom::next) { self->state.answer_next(); },
    [self](atom::wake) { self->state.answer_after_interval(); },
  };
}

} // namespace troupe
