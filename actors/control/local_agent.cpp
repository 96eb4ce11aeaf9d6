#include "troupe/actors/control/local_agent.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/strategies/step_commit/stall_report.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>

#include <algorithm>
#include <limits>

namespace troupe {

namespace {

/// A replica that is configured with this generation has left all steps and
/// runs no other.
constexpr auto last_epoch = std::numeric_limits<std::uint64_t>::max();

const party chief_party{party::role::chief, 0};

} // namespace

steward_state::~steward_state() {
  if (options.listener) // no caller waits for a dead agent
    options.listener->no_more(ec::cancelled, chief_is_gone);
}

/// Sends the batched messages of the replicas and then this message to the
/// chief.
template <class Message>
void steward_state::pass_on(subject what, const Message& x) {
  flush();
  if (!chief_lost)
    out.send(chief_party, house.chief, what, epoch, step(), x);
}

void steward_state::flush() {
  const auto all = std::exchange(unsent, {});
  if (chief_lost)
    return;
  for (const auto& x : split(all)) {
    const auto what = !x.reports.empty()  ? subject::report
                      : !x.seated.empty() ? subject::seated
                                          : subject::blame;
    out.send(chief_party, house.chief, what, epoch,
             x.reports.empty() ? step() : x.reports.front().step, x);
  }
}

std::uint64_t steward_state::step() const {
  const auto it = std::ranges::min_element(next);
  return it == next.end() ? 0 : *it;
}

void steward_state::on_seated(const commit::seated& x) {
  epoch = std::max(epoch, x.epoch);
  unsent.seated.push_back(x);
  if (unsent.seated.size() >= house.replicas.size())
    flush();
  else if (unsent.seated.size() == 1) // the chief waits for every replica
    self->delayed_send(self, max_answer_delay, atom::flush_v);
}

void steward_state::on_report(const commit::report& x) {
  const auto i = x.replica - options.first_replica;
  if (x.epoch == epoch && i < next.size())
    next[i] = std::max(next[i], x.step + 1);
  unsent.reports.push_back(x);
  const auto many = options.together * std::max<std::size_t>(next.size(), 1);
  if (unsent.reports.size() >= many || is_last(x))
    flush();
  else if (!std::exchange(flushing, true))
    self->delayed_send(self, longest_in_company, atom::flush_v);
}

/// True if the chief needs only the reports in `unsent` to end the run.
bool steward_state::is_last(const commit::report& x) const {
  return x.step + 1 >= ends && (next.empty() || std::ranges::min(next) >= ends);
}

void steward_state::on_failed(const commit::failed& x) {
  pass_on(subject::failed, x);
  if (x.epoch != epoch)
    return;
  trouble = x.why; // may be the first sign that the chief is lost
  if (asked)
    conclude(trouble);
}

void steward_state::on_blame(const commit::blame& x) {
  unsent.blames.push_back(x);
  if (unsent.blames.size() >= house.replicas.size())
    flush();
  else if (unsent.blames.size() == 1) // the chief waits `probe_timeout` only
    self->delayed_send(self, max_answer_delay, atom::flush_v);
  const auto i = x.id - options.first_replica;
  if (!asked || x.epoch != epoch || i >= next.size())
    return;
  if (x.step < next[i]) // the replica has reported that step since
    return probe(i);
  blames.push_back(x);
  if (blames.size() < house.replicas.size())
    return;
  conclude({});
}

void steward_state::on_join(const muster::join& x) {
  if (x.run <= joined)
    return; // a duplicate must not reset the state of the run
  joined = run = x.run;
  trouble.clear();
  told = heard = x.first;
  early.clear();
  end.reset();
  next.assign(house.replicas.size(), x.first);
  ends = commit::end_of(x.first, x.steps);
  pass_on(subject::join, x);
}

/// Commits may arrive in any order and repeatedly; the caller gets each once,
/// in order.
void steward_state::on_commits(const run_commits& x) {
  if (x.run != run)
    return;
  for (const auto& record : x.records) {
    if (record.step >= std::min(ends, heard + 2 * options.lease))
      return end_with(ec::protocol,
                      options.leader
                        + ", the leader, violated the protocol: it committed "
                          "step "
                        + std::to_string(record.step) + " where step "
                        + std::to_string(told) + " is next");
    if (record.step >= told)
      early.emplace(record.step, record);
  }
  tell_in_order();
}

void steward_state::on_heard(const run_heard& x) {
  if (x.run == run)
    heard = std::max(heard, x.next);
  pass_on(subject::news, x);
}

void steward_state::on_ended(const run_ended& x) {
  if (x.run != run)
    return;
  end = x.next;
  tell_in_order();
}

void steward_state::tell_in_order() {
  for (auto it = early.begin(); it != early.end() && it->first == told;
       it = early.erase(it), ++told)
    options.listener->committed(run, std::move(it->second));
  if (end && *end <= told)
    options.listener->ended(std::exchange(run, 0), *end);
}

void steward_state::over(std::uint64_t of_run) {
  if (run == of_run)
    run = 0;
}

void steward_state::on_gate(const caf::actor_addr& x) {
  gate = x;
  if (const auto it = caf::actor_cast<caf::actor>(x))
    self->monitor(it);
  else
    on_all_heard();
}

/// The chief's messages arrive on another channel than the notification of its
/// termination, and may arrive later. One of them may end the run regularly.
void steward_state::on_lost(const caf::down_msg& x) {
  if (x.source == gate)
    on_all_heard();
  else
    on_chief_lost(x.reason);
}

void steward_state::on_chief_lost(const caf::error& reason) {
  if (std::exchange(chief_lost, true))
    return;
  code = reason == ec::unreachable ? ec::unreachable : ec::peer_lost;
  if (reason && reason != caf::exit_reason::user_shutdown)
    why = wire::note_of(reason, self->system()).text;
  if (all_heard)
    on_all_heard();
  else
    self->delayed_send(self, options.last_words, atom::absent_v);
}

void steward_state::on_all_heard() {
  all_heard = true;
  if (!chief_lost || std::exchange(asked, true))
    return;
  if (run == 0 || !trouble.empty())
    return conclude(trouble);
  for (std::uint32_t i = 0; i < house.replicas.size(); ++i)
    probe(i);
  self->delayed_send(self, options.grace, atom::late_v);
}

void steward_state::probe(std::uint32_t i) {
  out.send(replica_named(options.first_replica + i), house.replicas[i],
           subject::probe, epoch, next[i], commit::probe{epoch, next[i]});
}

std::string steward_state::what_became_of_it() const {
  const auto in = run > 0 ? "step " + std::to_string(step()) : "";
  if (why.empty())
    return "has shut down" + (run > 0 ? " before the end of " + in : in);
  return "was lost" + (run > 0 ? " in " + in : in) + ": " + why;
}

/// Terminates because the chief is lost.
/// @param more text of a replica's failure. Empty: none.
void steward_state::conclude(const std::string& more) {
  const auto what =
    more.empty() && run > 0 ? commit::explain(blames, {}, {}) : more;
  end_with(code, options.leader + ", the leader, " + what_became_of_it()
                   + (what.empty() ? "" : "; " + what));
}

/// Makes all replicas leave their steps, reports the reason to the listener and
/// terminates.
void steward_state::end_with(ec code, const std::string& text) {
  for (std::uint32_t i = 0; i < house.replicas.size(); ++i) {
    const auto id = options.first_replica + i;
    out.send(replica_named(id), house.replicas[i], subject::seat, last_epoch, 0,
             commit::seat{last_epoch, id, 1});
  }
  if (const auto listener = std::exchange(options.listener, {}))
    listener->no_more(code, text);
  self->quit();
}

steward_inside::behavior_type
steward(steward_inside::stateful_pointer<steward_state> self,
        steward_options options, outbox out) {
  keep_last_words(self);
  auto& state = self->state;
  state.options = std::move(options);
  state.out = std::move(out);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_lost(x); });
  return {
    [&state](const commit::seated& x) { state.on_seated(x); },
    [&state](const commit::report& x) { state.on_report(x); },
    [&state](const commit::failed& x) { state.on_failed(x); },
    [&state](const commit::blame& x) { state.on_blame(x); },
    [&state](const run_commits& x) { state.on_commits(x); },
    [&state](const run_ended& x) { state.on_ended(x); },
    [&state](const run_failed& x) {
      state.over(x.run);
      state.options.listener->given_up(x.run, x.code, std::string{x.why});
    },
    [&state](const muster::join& x, const step_ref&) { state.on_join(x); },
    [&state](const run_heard& x) { state.on_heard(x); },
    [&state](const muster::stop& x) { state.pass_on(subject::news, x); },
    [self, &state](const household_ref& x) {
      state.house = x;
      self->monitor(x.chief);
    },
    [&state](const caf::actor_addr& x) { state.on_gate(x); },
    [&state](atom::flush) {
      state.flushing = false;
      state.flush();
    },
    [&state](atom::late) { state.conclude({}); },
    [&state](atom::absent) { state.on_all_heard(); },
  };
}

} // namespace troupe
