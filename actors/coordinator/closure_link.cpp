#include "troupe/actors/coordinator/closure_link.hpp"

#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/base/text.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace troupe {

namespace {

/// Polls with executions that are open at a time, and all polls. Polls with
/// executions to stop, and one that confirms results, may exceed the first
/// limit. The node may answer no poll before it has the confirmation. A channel
/// takes 16 messages with tensors at a time.
constexpr std::size_t max_open_polls = 4, max_all_polls = 8;

} // namespace

// -- to the node --------------------------------------------------------------

void closure_link_state::run(const coordinator::run& x,
                             const shared_closure& what) {
  waiting.push_back({x, what});
  send_work_later();
}

void closure_link_state::cancel(const coordinator::cancel& x) {
  const auto found = std::ranges::find_if(
    waiting, [&](const auto& one) { return one.run.execution == x.execution; });
  if (found != waiting.end()) {
    waiting.erase(found);
    self->send(config.owner, config.id, coordinator::stopped{x.execution});
  } else if (executed.contains(x.execution)) {
    cancelled.push_back(x.execution);
    send_work_later();
  } // otherwise its end is on the way to the scheduler
}

void closure_link_state::send_work_later() {
  if (!std::exchange(next_pending, true))
    self->send(self, atom::next_v);
}

void closure_link_state::send_work() {
  next_pending = false;
  bool may_run = true;
  while (may_run || !fetched.empty() || !cancelled.empty()) {
    may_run = !waiting.empty() && open_polls < max_open_polls
              && open_bytes <= max_batch_bytes;
    if (!may_run && fetched.empty()
        && (cancelled.empty() || open_polls >= max_all_polls))
      break;
    remote_work work;
    tensors inputs;
    work.cancelled = std::exchange(cancelled, {});
    work.fetched = std::exchange(fetched, {});
    if (may_run)
      work.runs =
        take_runs(inputs, work.cancelled.empty() && work.fetched.empty());
    poll(std::move(work), std::move(inputs));
  }
  if (open_polls == 0 && !executed.empty())
    poll({}, {});
}

/// Large inputs are alone in their poll, as they may be too large to be sent.
std::vector<remote_run> closure_link_state::take_runs(tensors& inputs,
                                                      bool is_alone) {
  std::vector<remote_run> out;
  std::size_t bytes = 0;
  while (!waiting.empty()) {
    const auto& [run, what] = waiting.front();
    bytes += batch_bytes(what->inputs);
    if (bytes > max_batch_bytes && !(is_alone && out.empty()))
      break;
    executed.emplace(run.execution, false);
    out.push_back(
      {run, what->name, static_cast<std::uint32_t>(what->inputs.size())});
    inputs.insert(inputs.end(), what->inputs.begin(), what->inputs.end());
    waiting.pop_front();
  }
  return out;
}

void closure_link_state::poll(remote_work work, tensors inputs) {
  const auto bytes = batch_bytes(inputs);
  // Of the only execution, if its inputs are large.
  std::optional<coordinator::execution> large;
  if (bytes > max_batch_bytes)
    large = work.runs.front().run.execution;
  ++open_polls;
  open_bytes += bytes;
  self
    ->request(config.worker, config.timeout, std::move(work), std::move(inputs))
    .then(
      [this, bytes](const remote_ends& ends, const tensors& results) {
        --open_polls;
        open_bytes -= bytes;
        on_ends(ends, results);
        send_work_later();
      },
      [this, bytes, large](const caf::error& why) {
        --open_polls;
        open_bytes -= bytes;
        const auto found = wire::to_wire(why, self->system());
        if (found.code != ec::invalid || !large)
          return give_up(why);
        fail(*large, found.text); // its inputs are too large to be sent
        send_work_later();
      });
}

// -- from the node ------------------------------------------------------------

void closure_link_state::on_ends(const remote_ends& ends,
                                 const tensors& results) {
  std::size_t next = 0;
  for (const auto& one : ends.reports) {
    const auto& which = one.execution;
    if (one.num_tensors > results.size() - next)
      return give_up(caf::make_error(
        ec::protocol, worker_text() + " has sent a report of closure "
                        + std::to_string(which.ordinal)
                        + " with fewer tensors than it says"));
    const auto first = results.begin() + static_cast<std::ptrdiff_t>(next);
    next += one.num_tensors;
    const auto found = executed.find(which);
    if (found != executed.end() && !found->second)
      self->send(config.owner, config.id, which,
                 tensors{first, first + one.num_tensors});
  }
  for (const auto& one : ends.ended) {
    const auto& which = one.end.execution;
    if (one.num_results > results.size() - next)
      return reject(which, "with fewer results than it says");
    const auto first = results.begin() + static_cast<std::ptrdiff_t>(next);
    next += one.num_results;
    const auto found = executed.find(which);
    if (found == executed.end() || found->second)
      return reject(which, "which it does not execute");
    if (!one.is_kept) {
      end(one.end, {first, first + one.num_results});
      continue;
    }
    if (one.num_results > 0)
      return reject(which, "with results that it keeps");
    found->second = true;
    kept.push_back(one.end);
  }
  if (next != results.size())
    return reject({}, "with more results than it says");
  for (const auto& one : ends.failed)
    fail(one.execution, net::printable_lines(one.text, max_failure_bytes));
  for (const auto& one : ends.stopped)
    if (executed.erase(one.execution) > 0)
      self->send(config.owner, config.id, one);
  fetch_next();
}

std::string closure_link_state::worker_text() const {
  return "worker " + std::to_string(config.number) + " (" + config.address
         + ")";
}

void closure_link_state::reject(const coordinator::execution& which,
                                const std::string& problem) {
  give_up(caf::make_error(ec::protocol,
                          worker_text() + " has reported the end of closure "
                            + std::to_string(which.ordinal) + ", " + problem));
}

void closure_link_state::give_up(const caf::error& why) {
  caf::anon_send_exit(config.worker, caf::exit_reason::user_shutdown);
  self->quit(why);
}

void closure_link_state::end(const coordinator::ended& x, tensors results) {
  if (executed.erase(x.execution) > 0)
    self->send(config.owner, config.id, x,
               coordinator::payload{
                 std::make_shared<const tensors>(std::move(results))});
}

void closure_link_state::fail(const coordinator::execution& which,
                              const std::string& why) {
  if (executed.erase(which) == 0)
    return;
  const job_error thrown{ec::invalid, worker_text() + ": " + why};
  self->send(config.owner, config.id, coordinator::failed{which},
             closure_failure{std::make_exception_ptr(thrown), config.number});
}

void closure_link_state::fetch_next() {
  if (kept.empty() || std::exchange(is_fetching, true))
    return;
  const auto from = kept.front();
  kept.pop_front();
  self->request(config.worker, config.timeout, atom::results_v, from.execution)
    .then(
      [this, from](const tensors& results) {
        end(from, results);
        on_fetched(from.execution);
      },
      [this, which = from.execution](const caf::error& why) {
        const auto found = wire::to_wire(why, self->system());
        if (found.code != ec::invalid)
          return give_up(why);
        fail(which, found.text); // its results are too large to be sent
        on_fetched(which);
      });
}

void closure_link_state::on_fetched(const coordinator::execution& from) {
  is_fetching = false;
  fetched.push_back(from);
  send_work_later();
  fetch_next();
}

closure_worker_actor::behavior_type
closure_link(closure_worker_actor::stateful_pointer<closure_link_state> self,
             closure_link_config config) {
  install_exception_handler(self);
  self->monitor(config.worker);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->quit(x.reason); });
  self->state.config = std::move(config);
  return {
    [self](const coordinator::run& x, const shared_closure& what) {
      self->state.run(x, what);
    },
    [self](const coordinator::cancel& x) { self->state.cancel(x); },
    [self](atom::next) { self->state.send_work(); },
  };
}

} // namespace troupe
