#include "troupe/actors/control/chief.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>

namespace troupe {

namespace {

template <class... Fs>
struct overload : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overload(Fs...) -> overload<Fs...>; // clang 14 requires it

/// Delay before the termination of a replica of another process is handled. Its
/// last reports, or the loss of its whole process, may arrive in this time.
constexpr auto process_news = 2 * longest_in_company;

} // namespace

void chief_state::open(const chief_options& x, outbox by) {
  options = x;
  if (options.where.names.empty())
    options.where = {{"this process"}, {0, options.replicas}};
  out = std::move(by);
  book = std::make_unique<commit::ledger>(options.replicas, options.lease,
                                          options.where);
  gathering = std::make_unique<muster::machine>(options.where.names);
}

void chief_state::take(const cast_ref& x) {
  cast = x;
  const auto know = [this](const auto& who, const party& as) {
    self->monitor(who);
    ids.emplace(who.address(), as);
  };
  for (std::uint32_t r = 0; r < cast.replicas.size(); ++r)
    know(cast.replicas[r], replica_named(r));
  for (std::uint32_t r = 0; r < cast.reducers.size(); ++r)
    know(cast.reducers[r], {party::role::reducer, r});
  for (std::uint32_t p = 0; p < cast.callers.size(); ++p)
    if (cast.callers[p].there)
      know(cast.callers[p].there, {party::role::steward, p});
  perform(book->open());
}

void chief_state::on_batch(const owner_batch& x) {
  for (const auto& one : x.seated)
    perform(book->on(one));
  for (const auto& one : x.reports)
    perform(book->on(one));
  for (const auto& one : x.blames)
    on_blame(one);
}

void chief_state::on_blame(const commit::blame& x) {
  if (!book->is_possible(x) || (x.reducer && x.id >= cast.reducers.size()))
    return; // a peer violated the protocol; its answer is ignored
  survey.on(x);
  perform(book->on(x));
}

void chief_state::on_heard(const run_heard& x) {
  if (run == 0 || x.run != run || x.process >= heard.size())
    return;
  heard[x.process] = std::max(heard[x.process], x.next);
  perform(book->heard(*std::ranges::min_element(heard)));
}

bool chief_state::is_here(std::uint32_t replica) const {
  for (std::uint32_t p = 0; p < cast.callers.size(); ++p)
    if (replica < options.where.first[p + 1])
      return !cast.callers[p].there;
  return true;
}

void chief_state::on_lost(const caf::down_msg& x) {
  const auto it = ids.find(x.source);
  if (it == ids.end())
    return;
  const auto who = it->second;
  ids.erase(it);
  if (who.what == party::role::steward)
    return on_process_lost(who.id, x.reason);
  const auto why = "its actor ended (" + self->system().render(x.reason) + ")";
  if (who.what == party::role::reducer)
    perform(book->on_reducer_lost(who.id, why));
  else if (is_here(who.id))
    perform(book->on_lost(who.id, why));
  else // the whole process may be lost, which is reported separately
    self->delayed_send(self, process_news, atom::ended_v, who.id, why);
}

void chief_state::on_process_lost(std::uint32_t process,
                                  const caf::error& why) {
  const auto code =
    why == ec::unreachable ? commit::cause::unreachable : commit::cause::lost;
  const auto text = !why || why == caf::exit_reason::user_shutdown
                      ? "it has shut down"
                      : wire::note_of(why, self->system()).text;
  perform(gathering->on_lost(process, code, text));
  perform(book->on_process_lost(process, code, text));
}

void chief_state::perform(muster::reaction what) {
  const overload act{
    [this](muster::begin& x) {
      run = x.what.run;
      pace.begin(self->clock().now(), x.what.first);
      heard.assign(cast.callers.size(), x.what.first);
      if (!work.it)
        work.name = "run " + std::to_string(run);
      perform(book->run(x.what.first, x.what.steps));
      if (x.stopped)
        perform(book->stop());
    },
    [this](muster::halt&) { perform(book->stop()); },
    [this](muster::refuse& x) {
      if (cast.callers[x.whom].here)
        work = {};
      tell_failure(x.whom, x.run, code_of(x.code), x.why);
    },
    [this](muster::abandon& x) {
      perform(book->end_with(commit::cause::protocol, x.why));
    },
  };
  for (auto& effect : what)
    std::visit(act, effect);
}

/// Arms the watchdog if the machine waits for a message, and disarms it
/// otherwise. It expires `step_timeout` after the last progress, or
/// `probe_timeout` after a probe.
void chief_state::watch() {
  const auto now = self->clock().now();
  if (moves != book->moves()) {
    moves = book->moves();
    moved = now;
  }
  if (!book->busy()) {
    ++guard; // a timer that was set is no longer valid
    armed = false;
  } else if (!armed || probed != book->probing()) {
    armed = true;
    probed = book->probing();
    const auto wait = probed ? grace() : options.patience;
    self->delayed_send(self, wait, atom::late_v, ++guard);
  }
}

std::chrono::milliseconds chief_state::grace() const {
  return std::clamp(options.patience / 4, std::chrono::milliseconds{20},
                    std::chrono::milliseconds{1000});
}

void chief_state::on_late(std::uint64_t of_guard) {
  if (of_guard != guard)
    return;
  const auto rest =
    moved + (probed ? grace() : options.patience) - self->clock().now();
  if (rest > caf::timespan{0}) { // there was progress since the timer was set
    self->delayed_send(self, rest, atom::late_v, ++guard);
    return;
  }
  armed = false;
  perform(book->on_late(std::to_string(options.patience.count()) + " ms"));
}

template <class Message>
void chief_state::tell_replicas(subject what, std::uint64_t step,
                                const Message& x) {
  for (std::uint32_t r = 0; r < cast.replicas.size(); ++r)
    out.send(replica_named(r), cast.replicas[r], what, x.epoch, step, x);
}

void chief_state::probe(const commit::probe& x) {
  tell_replicas(subject::probe, x.step, x);
  probe_reducers(x);
}

void chief_state::probe_reducers(const commit::probe& x) {
  for (std::uint32_t r = 0; r < cast.reducers.size(); ++r)
    out.send({party::role::reducer, r}, cast.reducers[r], subject::probe,
             x.epoch, x.step, x);
}

void chief_state::perform(commit::reaction what) {
  const overload act{
    [this](commit::send_seats& x) {
      for (const auto r : x.whom) {
        x.to_all.replica = r;
        out.send(replica_named(r), cast.replicas[r], subject::seat,
                 x.to_all.epoch, 0, x.to_all);
      }
    },
    [this](commit::send_orders& x) {
      for (std::uint32_t r = 0; r < cast.replicas.size(); ++r)
        out.send(replica_named(r), cast.replicas[r], subject::order,
                 x.to_all.epoch, x.to_all.first, x.to_all, work);
    },
    [this](commit::send_grants& x) {
      tell_replicas(subject::grant, x.to_all.until, x.to_all);
    },
    [this](commit::send_probes& x) { probe(x.to_all); },
    [this](commit::committed& x) {
      pace.commit(self->clock().now(), x.record.step + 1);
      tell_commit(std::move(x.record));
    },
    [this](commit::ended& x) {
      work = {};
      gathering->over();
      tell_end(x.next);
      run = 0;
    },
    [this](commit::given_up& x) {
      work = {};
      gathering->over();
      flush();
      const auto of_run = std::exchange(run, 0);
      for (auto p = std::uint32_t(cast.callers.size()); p-- > 0;)
        tell_failure(p, of_run, code_of(x.code), x.why);
    },
  };
  for (auto& effect : what)
    std::visit(act, effect);
  watch();
}

chief_inside::behavior_type
chief(chief_inside::stateful_pointer<chief_state> self, chief_options options,
      outbox out) {
  keep_last_words(self);
  self->state.open(options, std::move(out));
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_lost(x); });
  const auto hear = [self](const auto& x) {
    self->state.perform(self->state.book->on(x));
  };
  return {
    [=](const commit::seated& x) { hear(x); },
    [=](const commit::report& x) { hear(x); },
    [=](const commit::failed& x) { hear(x); },
    [self](const commit::blame& x) { self->state.on_blame(x); },
    [self](const owner_batch& x) { self->state.on_batch(x); },
    [self](const muster::join& x) { self->state.join(x); },
    [self](const run_heard& x) { self->state.on_heard(x); },
    [self](const muster::stop& x) {
      self->state.perform(self->state.gathering->on(x));
    },
    [self](const cast_ref& x) { self->state.take(x); },
    [self](const muster::join& x, const step_ref& fn) {
      self->state.work = fn;
      self->state.join(x);
    },
    [self](atom::status) { return self->state.status(); },
    [self](atom::late, std::uint64_t guard) { self->state.on_late(guard); },
    [self](atom::absent) { self->state.on_absent(); },
    [self](atom::ended, std::uint32_t replica, const std::string& why) {
      self->state.perform(self->state.book->on_lost(replica, why));
    },
    [self](atom::flush) {
      self->state.flushing = false;
      self->state.flush();
    },
    [self](atom::status, std::uint64_t number) {
      self->state.on_surveyed(number);
    },
  };
}

} // namespace troupe
