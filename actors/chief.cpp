#include "troupe/actors/chief.hpp"

#include "troupe/actors/types.hpp"

#include <algorithm>

namespace troupe {

namespace {

template <class... Fs>
struct overload : Fs... {
  using Fs::operator()...;
};

ec code_of(commit::cause x) {
  switch (x) {
    case commit::cause::stalled:
      return ec::stalled;
    case commit::cause::lost:
      return ec::peer_lost;
    case commit::cause::protocol:
      return ec::protocol;
    case commit::cause::unreachable:
      return ec::unreachable;
    case commit::cause::invalid:
      break;
  }
  return ec::invalid;
}

} // namespace

chief_state::~chief_state() {
  if (listener.it) // quit and kill end here: nobody waits for the dead
    listener.it->given_up(listener.run, ec::cancelled, chief_is_gone);
}

void chief_state::take(const cast_ref& x) {
  cast = x;
  for (std::uint32_t r = 0; r < cast.replicas.size(); ++r) {
    self->monitor(cast.replicas[r]);
    ids.emplace(cast.replicas[r].address(), replica_named(r));
  }
  for (std::uint32_t r = 0; r < cast.reducers.size(); ++r) {
    self->monitor(cast.reducers[r]);
    ids.emplace(cast.reducers[r].address(), party{party::role::reducer, r});
  }
  perform(book->open());
}

void chief_state::run(std::uint64_t first, std::uint64_t steps,
                      const step_ref& fn, const listener_ref& to) {
  if (listener.it) {
    to.it->given_up(to.run, ec::busy, "work runs already");
    return;
  }
  work = fn;
  listener = to;
  perform(book->run(first, steps));
}

void chief_state::on_heard(std::uint64_t of_run, std::uint64_t next) {
  if (listener.it && of_run == listener.run)
    perform(book->heard(next));
}

void chief_state::on_lost(const caf::down_msg& x) {
  const auto it = ids.find(x.source);
  if (it == ids.end())
    return;
  const auto who = it->second;
  ids.erase(it);
  const auto why = "its actor ended (" + self->system().render(x.reason) + ")";
  perform(who.what == party::role::replica
            ? book->on_lost(who.id, why)
            : book->on_reducer_lost(who.id, why));
}

/// Sees to it that a guard rings `patience` after the last move.
void chief_state::watch() {
  const auto now = self->clock().now();
  if (moves != book->moves()) {
    moves = book->moves();
    moved = now;
  }
  if (!book->busy()) {
    ++guard; // the one that is set counts no more
    armed = false;
  } else if (!armed || probed != book->probing()) {
    armed = true;
    probed = book->probing();
    const auto wait = probed ? grace() : patience;
    self->delayed_send(self, wait, atom::late_v, ++guard);
  }
}

std::chrono::milliseconds chief_state::grace() const {
  return std::clamp(patience / 4, std::chrono::milliseconds{20},
                    std::chrono::milliseconds{1000});
}

void chief_state::on_late(std::uint64_t of_guard) {
  if (of_guard != guard)
    return;
  const auto rest = moved + (probed ? grace() : patience) - self->clock().now();
  if (rest > caf::timespan{0}) { // it moved since the guard was set
    self->delayed_send(self, rest, atom::late_v, ++guard);
    return;
  }
  armed = false;
  perform(book->on_late(std::to_string(patience.count()) + " ms"));
}

template <class Message>
void chief_state::tell_replicas(subject what, std::uint64_t step,
                                const Message& x) {
  for (std::uint32_t r = 0; r < cast.replicas.size(); ++r)
    out.send(replica_named(r), cast.replicas[r], what, x.epoch, step, x);
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
    [this](commit::send_probes& x) {
      tell_replicas(subject::probe, x.to_all.step, x.to_all);
      for (std::uint32_t r = 0; r < cast.reducers.size(); ++r)
        out.send({party::role::reducer, r}, cast.reducers[r], subject::probe,
                 x.to_all.epoch, x.to_all.step, x.to_all);
    },
    [this](commit::committed& x) {
      if (listener.it)
        listener.it->committed(listener.run, std::move(x.record));
    },
    [this](commit::ended& x) {
      work = {};
      if (const auto to = std::exchange(listener, {}); to.it)
        to.it->ended(to.run, x.next);
    },
    [this](commit::given_up& x) {
      work = {};
      if (const auto to = std::exchange(listener, {}); to.it)
        to.it->given_up(to.run, code_of(x.code), std::move(x.why));
    },
  };
  for (auto& effect : what)
    std::visit(act, effect);
  watch();
}

chief_inside::behavior_type
chief(chief_inside::stateful_pointer<chief_state> self, std::uint32_t replicas,
      std::chrono::milliseconds patience, outbox out) {
  auto& state = self->state;
  state.patience = patience;
  state.out = std::move(out);
  state.book = std::make_unique<commit::ledger>(replicas, crew::lease);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_lost(x); });
  const auto hear = [self](const auto& x) {
    self->state.perform(self->state.book->on(x));
  };
  return {
    [=](const commit::seated& x) { hear(x); },
    [=](const commit::report& x) { hear(x); },
    [=](const commit::failed& x) { hear(x); },
    [=](const commit::blame& x) { hear(x); },
    [self](const cast_ref& x) { self->state.take(x); },
    [self](atom::run, std::uint64_t first, std::uint64_t steps,
           const step_ref& fn,
           const listener_ref& to) { self->state.run(first, steps, fn, to); },
    [self](atom::heard, std::uint64_t of_run, std::uint64_t next) {
      self->state.on_heard(of_run, next);
    },
    [self](atom::stop) { self->state.perform(self->state.book->stop()); },
    [self](atom::late, std::uint64_t guard) { self->state.on_late(guard); },
  };
}

} // namespace troupe
