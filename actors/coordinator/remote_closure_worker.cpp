#include "troupe/actors/coordinator/remote_closure_worker.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/protocol/type_ids.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <utility>

namespace troupe {

namespace {

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

remote_closure_worker_state::promise
remote_closure_worker_state::run(const coordinator::run& what,
                                 const std::string& closure_name,
                                 const tensors& inputs) {
  const auto answer =
    self->make_response_promise<coordinator::ended, tensors>();
  const auto [found, is_new] = open.try_emplace(
    what.execution, open_run{answer, what, closure_name, inputs, nullptr});
  if (is_new && setup)
    start(found->second);
  return answer;
}

void remote_closure_worker_state::start(open_run& one) {
  if (!setup->problem.empty())
    return fail(one, ec::refused, setup->problem);
  const auto found = setup->closures.find(one.name);
  if (found == setup->closures.end()) {
    std::string names;
    for (const auto& [name, fn] : setup->closures)
      names += (names.empty() ? "" : ", ") + name;
    return fail(one, ec::invalid,
                "no closure \"" + one.name
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

void remote_closure_worker_state::fail(open_run& one, ec code,
                                       const std::string& text) {
  const auto which = one.run.execution;
  one.answer.deliver(caf::make_error(code, text));
  open.erase(which);
}

void remote_closure_worker_state::cancel(const coordinator::cancel& x) {
  const auto found = open.find(x.execution);
  if (found == open.end())
    return;
  if (!found->second.what)
    return fail(found->second, ec::cancelled, "the execution was stopped");
  found->second.what->stopped_attempts = x.execution.attempt;
  self->send(worker, x);
}

void remote_closure_worker_state::on_setup(const shared_setup& x) {
  setup = x;
  if (setup->problem.empty()) {
    worker = setup->spawn(caf::actor_cast<closure_worker_owner_actor>(self));
    self->monitor(worker);
  }
  answer_info();
  for (auto next = open.begin(); next != open.end();)
    start((next++)->second); // it may remove the element
}

void remote_closure_worker_state::on_ended(const coordinator::ended& x,
                                           const coordinator::payload& result) {
  auto found = open.extract(x.execution);
  if (!found)
    return;
  // This process does not learn more about it.
  *found.mapped().what->counted_attempt = x.execution.attempt;
  found.mapped().answer.deliver(x, *static_cast<const tensors*>(result.get()));
}

void remote_closure_worker_state::on_failed(const coordinator::execution& which,
                                            const closure_failure& failure) {
  if (const auto found = open.find(which); found != open.end())
    fail(found->second, ec::invalid, text_of(failure.thrown));
}

void remote_closure_worker_state::on_stopped(
  const coordinator::execution& which) {
  if (const auto found = open.find(which); found != open.end())
    fail(found->second, ec::cancelled, "the execution was stopped");
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
    [self](const coordinator::run& x, const std::string& closure_name,
           const tensors& inputs) {
      return self->state.run(x, closure_name, inputs);
    },
    [self](const coordinator::cancel& x) { self->state.cancel(x); },
    [self](atom::info) { return self->state.info(); },
    [self](const shared_setup& x) { self->state.on_setup(x); },
  };
}

} // namespace troupe
