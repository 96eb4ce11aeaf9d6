#include "troupe/actors/coordinator/closure_link.hpp"

#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/request_without_timer.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/base/text.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace troupe {

namespace {

/// Polls that are open at a time. The node answers all but the last one when it
/// gets them, so more are open only while they travel. With one `fetch`, far
/// fewer than the 16 messages with tensors that a channel takes at a time.
constexpr std::size_t max_open_requests = 4;

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
  while (!(waiting.empty() && cancelled.empty() && fetched.empty())
         && open_requests < max_open_requests && open_bytes <= max_batch_bytes)
    send_batch();
  if (open_requests == 0 && !executed.empty())
    request({}, {}, 0);
}

/// Large inputs are alone in their request, as they may be too large to be
/// sent.
void closure_link_state::send_batch() {
  remote_work work{
    {}, std::exchange(cancelled, {}), std::exchange(fetched, {})};
  tensors inputs;
  std::size_t bytes = 0;
  while (!waiting.empty()) {
    const auto& [run, what] = waiting.front();
    const auto more = batch_bytes(what->inputs);
    const bool is_first =
      work.runs.empty() && work.cancelled.empty() && work.fetched.empty();
    if (!is_first && bytes + more > max_batch_bytes)
      break;
    bytes += more;
    executed.emplace(run.execution, false);
    work.runs.push_back(
      {run, what->name, static_cast<std::uint32_t>(what->inputs.size())});
    inputs.insert(inputs.end(), what->inputs.begin(), what->inputs.end());
    waiting.pop_front();
  }
  request(std::move(work), std::move(inputs), bytes);
}

void closure_link_state::request(remote_work work, tensors inputs,
                                 std::size_t bytes) {
  ++open_requests;
  open_bytes += bytes;
  const auto first = work.runs.empty() ? coordinator::execution{}
                                       : work.runs.front().run.execution;
  const bool is_large = work.runs.size() == 1 && bytes > max_batch_bytes;
  request_without_timer(self, config.worker, std::move(work), std::move(inputs))
    .then(
      [this, bytes](const remote_ends& ends, const tensors& results) {
        --open_requests;
        open_bytes -= bytes;
        on_ends(ends, results);
        send_work_later();
      },
      [this, bytes, first, is_large](const caf::error& why) {
        --open_requests;
        open_bytes -= bytes;
        const auto found = wire::to_wire(why, self->system());
        if (found.code != ec::invalid || !is_large)
          return self->quit(why); // the worker cannot be used
        fail(first, found.text);  // its inputs are too large to be sent
        send_work_later();
      });
}

// -- from the node ------------------------------------------------------------

void closure_link_state::on_ends(const remote_ends& ends,
                                 const tensors& results) {
  std::size_t next = 0;
  for (const auto& one : ends.ended) {
    if (one.num_results > results.size() - next
        || (one.is_kept && one.num_results > 0))
      return break_protocol("it has sent fewer results than it says");
    const auto first = results.begin() + static_cast<std::ptrdiff_t>(next);
    next += one.num_results;
    const auto found = executed.find(one.end.execution);
    if (found == executed.end() || found->second)
      return break_protocol("it has sent an end that nobody expects");
    if (one.is_kept) {
      found->second = true;
      kept.push_back(one.end);
    } else {
      end(one.end, {first, first + one.num_results});
    }
  }
  if (next != results.size())
    return break_protocol("it has sent more results than it says");
  for (const auto& one : ends.failed)
    fail(one.execution, net::printable_lines(one.text, max_failure_bytes));
  for (const auto& one : ends.stopped)
    if (executed.erase(one.execution) > 0)
      self->send(config.owner, config.id, one);
  fetch_next();
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
  const job_error thrown{ec::invalid, "worker " + std::to_string(config.number)
                                        + " (" + config.address + "): " + why};
  self->send(config.owner, config.id, coordinator::failed{which},
             closure_failure{std::make_exception_ptr(thrown), config.number});
}

void closure_link_state::break_protocol(const std::string& what) {
  self->quit(caf::make_error(ec::protocol, what));
}

void closure_link_state::fetch_next() {
  if (kept.empty() || std::exchange(is_fetching, true))
    return;
  const auto from = kept.front();
  kept.pop_front();
  request_without_timer(self, config.worker, atom::results_v, from.execution)
    .then(
      [this, from](const tensors& results) {
        end(from, results);
        on_fetched(from.execution);
      },
      [this, which = from.execution](const caf::error& why) {
        const auto found = wire::to_wire(why, self->system());
        if (found.code != ec::invalid)
          return self->quit(why); // the worker cannot be used
        fail(which, found.text);  // its results are too large to be sent
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
    [](atom::wake) {},
  };
}

} // namespace troupe
