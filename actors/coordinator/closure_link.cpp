#include "troupe/actors/coordinator/closure_link.hpp"

#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/base/text.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace troupe {

namespace {

/// Requests that are open at a time: those with executions, and those for kept
/// results. A connection takes 16 messages with tensors at a time.
constexpr std::size_t max_open_requests = 8, max_open_fetches = 4;
/// Executions of one request.
constexpr std::size_t max_runs = 1024;

} // namespace

// -- to the node --------------------------------------------------------------

void closure_link_state::run(const coordinator::run& x,
                             const shared_closure& what) {
  waiting.push_back({x, what});
  send_later();
}

void closure_link_state::send_later() {
  if (!std::exchange(next_pending, true))
    self->send(self, atom::next_v);
}

void closure_link_state::send_waiting() {
  next_pending = false;
  while (!waiting.empty() && open_requests < max_open_requests)
    send_some();
  if (open_requests == 0 && !executed.empty())
    request({}, {});
}

void closure_link_state::send_some() {
  remote_runs runs;
  tensors inputs;
  std::size_t bytes = 0;
  do {
    const auto& [run, what] = waiting.front();
    bytes += batch_bytes(what->inputs);
    if (!runs.runs.empty() && bytes > max_batch_bytes)
      break;
    executed.insert(run.execution);
    runs.runs.push_back(
      {run, what->name, static_cast<std::uint32_t>(what->inputs.size())});
    inputs.insert(inputs.end(), what->inputs.begin(), what->inputs.end());
    waiting.pop_front();
  } while (!waiting.empty() && runs.runs.size() < max_runs);
  request(std::move(runs), std::move(inputs));
}

void closure_link_state::request(remote_runs runs, tensors inputs) {
  ++open_requests;
  std::vector<coordinator::execution> sent;
  for (const auto& one : runs.runs)
    sent.push_back(one.run.execution);
  self
    ->request(config.worker, config.timeout, std::move(runs), std::move(inputs))
    .then(
      [this](const remote_ends& ends, const tensors& results) {
        --open_requests;
        on_ends(ends, results);
        send_later();
      },
      [this, sent = std::move(sent)](const caf::error& why) {
        --open_requests;
        on_error(sent, why);
        send_later();
      });
}

void closure_link_state::cancel(const coordinator::cancel& x) {
  const auto found = std::ranges::find_if(
    waiting, [&](const auto& one) { return one.run.execution == x.execution; });
  if (found == waiting.end())
    return self->send(config.worker, x);
  waiting.erase(found);
  self->send(config.owner, config.id, coordinator::stopped{x.execution});
}

// -- from the node ------------------------------------------------------------

void closure_link_state::on_ends(const remote_ends& ends,
                                 const tensors& results) {
  std::size_t next = 0;
  for (const auto& one : ends.ended) {
    if (one.results > results.size() - next)
      return self->quit(
        caf::make_error(ec::protocol, std::string{"a node has sent fewer "
                                                  "results than it says"}));
    const auto first = results.begin() + static_cast<std::ptrdiff_t>(next);
    next += one.results;
    if (one.is_kept)
      kept.push_back(one.end);
    else
      end(one.end, {first, first + one.results});
  }
  for (const auto& one : ends.failed)
    fail(one.execution, net::printable(one.text, net::max_sentence_bytes));
  for (const auto& one : ends.stopped)
    if (executed.erase(one.execution) > 0)
      self->send(config.owner, config.id, one);
  fetch_kept();
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

void closure_link_state::fetch_kept() {
  while (!kept.empty() && open_fetches < max_open_fetches) {
    ++open_fetches;
    self->request(config.worker, config.timeout, kept.front().execution)
      .then(
        [this, of = kept.front()](const tensors& results) {
          --open_fetches;
          end(of, results);
          fetch_kept();
        },
        [this, which = kept.front().execution](const caf::error& why) {
          --open_fetches;
          on_error({which}, why);
          fetch_kept();
        });
    kept.pop_front();
  }
}

/// Executions have not begun, or have no results, such as large ones; or the
/// worker cannot be used.
void closure_link_state::on_error(
  const std::vector<coordinator::execution>& some, const caf::error& why) {
  const auto found = wire::to_wire(why, self->system());
  if (found.code != ec::invalid)
    return self->quit(why);
  for (const auto& which : some)
    fail(which, found.text);
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
    [self](atom::next) { self->state.send_waiting(); },
    [](atom::wake) {},
  };
}

} // namespace troupe
