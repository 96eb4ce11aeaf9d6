#include "troupe/actors/replica/replica.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/replica/replica_step_context.hpp"
#include "troupe/strategies/step_commit/stall_report.hpp"

#include <algorithm>

namespace troupe {

namespace {

const party chief_party{party::role::chief, 0};

std::string text_of(const std::exception_ptr& x) {
  try {
    std::rethrow_exception(x);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
  }
}

} // namespace

replica_state::~replica_state() {
  wanted_epoch = ~std::uint64_t{0}; // makes every wait throw `superseded`
  code.reset();
  if (plane && in_step)
    plane->leave(id);
}

void replica_state::wire(const replica_wiring& x, owner_actor to) {
  id = x.id;
  options = x.options;
  incarnation = x.incarnation;
  replicas = options.replicas;
  reducers = x.reducers;
  by = x.by;
  steps = x.steps;
  plane = x.plane;
  out = {replica_named(id), x.by, x.faults};
  owner = std::move(to);
  mine = std::make_unique<tree::member>(id, replicas);
  hosted = std::make_unique<tree::adders>(replicas);
  prepare(own, options, id, 0);
  step = std::make_unique<replica_step>(*this);
  code = std::make_unique<fiber>(&own);
}

// -- messages of the chief ----------------------------------------------------

void replica_state::on_seat(const commit::seat& x) {
  if (x.epoch == epoch && !in_step && !broken)
    return say_seated(); // the chief did not receive the acknowledgement
  wanted_epoch = std::max(wanted_epoch, x.epoch);
  turn();
}

void replica_state::on_order(const commit::order& x, const step_ref& fn) {
  if (x.epoch != epoch || abandoned() || in_step || x.first < next)
    return;
  work = fn;
  next = x.first;
  if (!work.it && steps)
    work.it = steps->find(fn.name);
  if (!work.it)
    return fail(commit::cause::protocol,
                "replica " + std::to_string(id)
                  + " was told to run the step function '" + fn.name
                  + "', which is not registered in its process");
  until = x.until;
  turn();
}

void replica_state::on_grant(const commit::grant& x) {
  if (x.epoch != epoch || abandoned())
    return;
  until = std::max(until, x.until);
  turn();
}

void replica_state::on_probe(const commit::probe& x) {
  if (x.epoch != epoch)
    return;
  if (about_to_enter(x.step)) { // the pending `next` message starts that step
    self->send(self, x);
    return;
  }
  commit::blame answer{epoch, x.step, false, id, doing, waits_for, {}};
  if (!in_step || next != x.step)
    answer.what = commit::doing::idle;
  answer.missing = missing_in(x.step);
  out.send(chief_party, owner, subject::blame, epoch, x.step, answer);
}

bool replica_state::about_to_enter(std::uint64_t number) const {
  return !in_step && !abandoned() && work.it && next == number && next < until;
}

void replica_state::visit(const visit_ref& x) {
  std::string problem;
  if (in_step) {
    problem = "the replica is in step " + std::to_string(next);
  } else {
    use_threads(options.threads);
    const context_scope inside{own};
    try {
      (*x.it)(id);
    } catch (...) {
      problem = text_of(std::current_exception());
    }
  }
  x.by->visited(x.number, id, std::move(problem));
}

// -- steps --------------------------------------------------------------------

void replica_state::turn() {
  for (;;) {
    if (in_step) {
      if (abandoned())
        code->abort();
      else
        code->resume();
      if (!code->done())
        return; // the step function waits
      end_step();
      if (next < until) { // read the mailbox before the next step
        self->send(self, atom::next_v);
        return;
      }
    }
    drain();
    if (wanted_epoch > epoch)
      take_seat();
    while (add_some(0)) {
    }
    if (!broken && work.it && next < until)
      start_step();
    else if (by->port_of(id).park())
      return;
  }
}

void replica_state::start_step() {
  in_step = true;
  doing = commit::doing::computing;
  updating = false;
  mine->open(epoch, next);
  if (plane)
    plane->enter(id, next);
  prepare(own, options, id, next);
  prepare(*step, options, id, next, epoch);
  code->start([this] {
    (*work.it)(*step);
    static_cast<replica_step&>(*step).settle();
  });
}

void replica_state::end_step() {
  in_step = false;
  doing = commit::doing::idle;
  if (plane)
    plane->leave(id);
  if (updating && !code->error())
    applied = next + 1; // also if the chief has aborted the step meanwhile
  if (const auto thrown = code->error()) {
    fail(commit::cause::invalid, text_of(thrown));
  } else if (!abandoned()) {
    out.send(chief_party, owner, subject::report, epoch, next,
             commit::report{epoch, next, id, incarnation, step->report});
    ++next;
  }
}

void replica_state::fail(commit::cause code, const std::string& why) {
  if (broken)
    return;
  broken = true;
  out.send(chief_party, owner, subject::failed, epoch, next,
           commit::failed{epoch, next, id, incarnation, code, why});
}

/// Fails because a wait exceeded the timeout of its collective options.
void replica_state::fail_of_time(std::chrono::milliseconds waited) {
  const auto missing = missing_in(next);
  fail(commit::cause::stalled,
       "replica " + std::to_string(id) + " waited for " + awaited()
         + " in step " + std::to_string(next) + " for "
         + std::to_string(waited.count()) + " ms, the timeout of its call"
         + (missing.empty()
              ? ""
              : "; it misses " + commit::replicas_named(missing)));
}

std::string replica_state::awaited() const {
  const auto* what =
    doing == commit::doing::gather ? "the gather " : "the sum of bucket ";
  return what + std::to_string(waits_for);
}

/// Replicas that this replica knows to be missing in a step: those whose inputs
/// are missing, or those that have not accepted their packets.
std::vector<std::uint32_t>
replica_state::missing_in(std::uint64_t at_step) const {
  if (plane) {
    if (auto lack = plane->lacking(at_step))
      return std::move(lack->replicas);
    if (doing == commit::doing::sum && settling && at_step == next)
      return plane->unread();
  } else if (const auto lack = hosted->lacking(at_step)) {
    return lack->missing;
  } else if (doing == commit::doing::gather) {
    return mine->missing_in_gather(waits_for);
  }
  return {};
}

/// Fails because a peer has failed. The text names the awaited operation, which
/// only this replica knows.
void replica_state::fail_of_peer(const data_plane::trouble& x) {
  const auto code = x.how == net::ending::dead     ? commit::cause::lost
                    : x.how == net::ending::silent ? commit::cause::unreachable
                                                   : commit::cause::protocol;
  fail(code, x.why + ", while replica " + std::to_string(id) + " waited for "
               + awaited() + " in step " + std::to_string(next));
}

void replica_state::take_seat() {
  epoch = wanted_epoch;
  broken = false;
  work = {};
  next = until = 0;
  mine->open(epoch, 0);
  hosted->open(epoch);
  if (plane)
    plane->seat(id, epoch);
  use_threads(options.threads);
  say_seated();
}

void replica_state::say_seated() {
  out.send(chief_party, owner, subject::seated, epoch, next,
           commit::seated{epoch, id, incarnation, applied});
}

// -- behavior -----------------------------------------------------------------

replica_inside::behavior_type
replica(replica_inside::stateful_pointer<replica_state> self,
        replica_wiring wiring, owner_actor owner) {
  keep_last_words(self);
  self->state.wire(wiring, std::move(owner));
  const auto receive = [self](subject what, const tree::stamp& at,
                              const tensor& data, const tensor& room) {
    self->state.on_letter({what, at, data, room});
    self->state.turn();
  };
  return {
    [=](const tree::part& x, const tensor& data, const tensor& room) {
      receive(subject::part, x.at, data, room);
    },
    [self](const commit::probe& x) { self->state.on_probe(x); },
    [self](const commit::seat& x) { self->state.on_seat(x); },
    [self](const commit::order& x, const step_ref& fn) {
      self->state.on_order(x, fn);
    },
    [self](const commit::grant& x) { self->state.on_grant(x); },
    [=](const tree::sum& x, const tensor& whole) {
      receive(subject::sum, x.at, whole, {});
    },
    [=](const tree::share& x, const tensor& part) {
      receive(subject::share, x.at, part, {});
    },
    [self](const visit_ref& x) { self->state.visit(x); },
    [self](atom::wake) {
      self->state.woken = false;
      self->state.turn();
    },
    [self](atom::next) { self->state.turn(); },
  };
}

} // namespace troupe
