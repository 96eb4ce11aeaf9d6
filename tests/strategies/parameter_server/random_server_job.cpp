#include "troupe/tests/strategies/parameter_server/random_server_job.hpp"

#include <algorithm>
#include <variant>

namespace troupe::parameter_server {

namespace {

constexpr std::uint64_t timeout = 60;

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};

} // namespace

random_server_job::random_server_job(std::uint64_t seed) : random_{seed} {
  shards_ = 1 + std::uint32_t(below(3));
  replicas_ = 1 + std::uint32_t(below(4));
  copies_ = 1 + std::uint32_t(below(3));
  steps_ = 3 + below(10);
  loss_percent_ = chance(50) ? below(20) : 0;
  max_delay_ = 1 + below(40);
  if (replicas_ > 1 && chance(40))
    backup_workers_ = 1 + std::uint32_t(below(replicas_ - 1));
  const auto only = below(4); // 3: any kinds
  for (std::uint32_t s = 0; s < shards_; ++s) {
    auto& rules = rules_.emplace_back();
    const auto parts = 1 + below(3);
    for (std::uint64_t p = 0; p < parts; ++p) {
      const auto kind = consistency_kind(only < 3 ? only : below(3));
      rules.push_back(
        {kind, kind == consistency_kind::bounded ? std::uint32_t(below(4)) : 0,
         kind == consistency_kind::synchronous ? backup_workers_ : 0});
    }
    all_parts_ += parts;
  }
  if (chance(30))
    limits_ = {1 + below(10), 5 + below(30)};
  const auto servers = copies_ + below(3);
  for (std::uint64_t i = 0; i < servers; ++i)
    add_server();
  const auto workers = 1 + below(3);
  for (std::uint64_t i = 0; i < workers; ++i)
    add_worker();
  add_chief();
  placed_.resize(shards_);
  for (std::uint32_t r = 0; r < replicas_; ++r)
    hosts_[r] = std::next(workers_.begin(), std::int64_t(r % workers))->first;
}

std::string random_server_job::run() {
  change_view();
  for (const auto& [id, host] : hosts_)
    start_replica(host, id, false);
  at(timeout, [this] { tick(); });
  const auto faults = below(7);
  for (std::uint64_t i = 0; i < faults; ++i) {
    run_until(now_ + below(200), [this] { return is_done(); });
    inject();
  }
  run_until(now_ + 500, [this] { return is_done(); });
  has_faults_ = false;
  change_view();
  run_until(now_ + 200'000, [this] { return is_done(); });
  if (!is_done())
    fail("the job does not end");
  run_until(now_ + 20'000, [this] { return all_backups_follow(); });
  run_until(now_ + 1'000, [] { return false; });
  check_end();
  return problem_;
}

void random_server_job::fail(const std::string& what) {
  if (problem_.empty())
    problem_ = "at " + std::to_string(now_) + ": " + what;
}

// -- time and network ---------------------------------------------------------

void random_server_job::at(std::uint64_t delay, std::function<void()> action) {
  events_.emplace(std::pair{now_ + delay, ++order_}, std::move(action));
}

void random_server_job::deliver(std::function<void()> action) {
  if (has_faults_ && chance(loss_percent_))
    return;
  if (has_faults_ && chance(loss_percent_))
    at(1 + below(3 * max_delay_), action);
  at(1 + below(max_delay_), std::move(action));
}

void random_server_job::run_until(std::uint64_t end,
                                  const std::function<bool()>& done) {
  while (problem_.empty() && !done() && !events_.empty()
         && events_.begin()->first.first <= end) {
    const auto next = events_.extract(events_.begin());
    now_ = next.key().first;
    next.mapped()();
  }
  if (!done())
    now_ = std::max(now_, end);
}

/// All timers of all processes.
void random_server_job::tick() {
  for (auto& [process, one] : servers_)
    if (one.is_alive)
      for (std::uint32_t s = 0; s < shards_; ++s)
        perform(process, s, one.copies[s].machine->on_timeout());
  for (auto& [process, one] : workers_)
    if (one.is_alive)
      perform(process, one.machine->on_timeout());
  for (auto& [unused, one] : chiefs_)
    if (one.is_alive)
      perform(one.machine->on_timeout());
  at(timeout, [this] { tick(); });
}

// -- processes ----------------------------------------------------------------

void random_server_job::add_server() {
  const auto process = next_incarnation_++;
  auto& added = servers_[process];
  for (std::uint32_t s = 0; s < shards_; ++s) {
    const values none(rules_[s].size());
    added.copies.push_back(
      {std::make_unique<shard_copy>(process, rules_[s], replicas_, limits_),
       none, none, 0});
  }
}

void random_server_job::add_worker() {
  const auto process = next_incarnation_++;
  workers_[process].machine = std::make_unique<worker>(process, shards_);
}

void random_server_job::add_chief() {
  chief_ = next_incarnation_++;
  chiefs_[chief_].machine =
    std::make_unique<step_decisions>(shards_, replicas_, backup_workers_);
}

void random_server_job::start_replica(std::uint64_t process, std::uint32_t id,
                                      bool is_adopted) {
  workers_[process].replicas[id] = {};
  workers_[process].replicas[id].is_adopted = is_adopted;
  read(process, id);
}

/// Pulls all parts of all shards for the next step.
void random_server_job::read(std::uint64_t process, std::uint32_t id) {
  auto& from = workers_[process];
  auto& self = from.replicas[id];
  for (std::uint32_t s = 0; s < shards_; ++s)
    self.reading.insert(s);
  for (std::uint32_t s = 0; s < shards_; ++s) {
    std::vector<std::uint32_t> parts;
    for (std::uint32_t p = 0; p < rules_[s].size(); ++p)
      parts.push_back(p);
    perform(process, from.machine->pull(s, id, self.step, parts));
  }
}

void random_server_job::on_pulled(std::uint64_t process, const pull_done& done,
                                  const values& read_values) {
  auto& self = workers_[process].replicas[done.replica];
  if (done.step != self.step || self.reading.erase(done.shard) == 0)
    return fail("an answer to no pull");
  if (!self.is_adopted)
    check_read(done, read_values);
  self.lowest_next = std::min(self.lowest_next, done.next_step);
  self.versions[done.shard] = done.versions;
  if (self.reading.empty())
    on_read(process, done.replica);
}

/// What a replica reads contains all contributions that its rule promises.
void random_server_job::check_read(const pull_done& done,
                                   const values& read_values) {
  for (std::uint32_t p = 0; p < read_values.size(); ++p) {
    const auto& rule = rules_[done.shard][p];
    const auto has = [&](std::uint32_t r, std::uint64_t below_step) {
      for (std::uint64_t t = 0; t < below_step; ++t)
        if (!read_values[p].contains({r, t}))
          return false;
      return true;
    };
    if (rule.kind == consistency_kind::synchronous) {
      if (done.versions[p] < done.step)
        fail("a synchronous part was read too early");
      // Unless another worker has contributed to the step for this replica.
      if (rule.backup_workers == 0 && done.versions[p] != done.step
          && done.next_step <= done.step)
        fail("a synchronous part is ahead of a replica");
      continue;
    }
    if (!has(done.replica, done.step))
      fail("a replica does not read its own contributions");
    if (rule.kind == consistency_kind::bounded
        && done.step > rule.max_staleness)
      for (std::uint32_t r = 0; r < replicas_; ++r)
        if (!has(r, done.step - rule.max_staleness))
          fail("a read is more stale than its bound");
  }
}

/// All shards have answered: the replica computes, and pushes.
void random_server_job::on_read(std::uint64_t process, std::uint32_t id) {
  auto& from = workers_[process];
  auto& self = from.replicas[id];
  if (self.is_adopted) {
    self.is_adopted = false;
    self.step = self.contributed = self.lowest_next;
    perform(process, from.machine->contributed(id, self.step));
    if (self.step < steps_)
      read(process, id);
    return;
  }
  const auto step = self.step++;
  const auto versions = self.versions;
  for (std::uint32_t s = 0; s < shards_; ++s)
    for (std::uint32_t p = 0; p < rules_[s].size(); ++p)
      perform(process, from.machine->push(s, {id, step, p}, versions.at(s)[p],
                                          payload{nullptr, 1 + below(9)}));
  if (self.step < steps_)
    at(1 + below(5), [this, process, id] {
      auto& x = workers_[process];
      if (x.is_alive && x.replicas.contains(id))
        read(process, id);
    });
}

void random_server_job::perform(std::uint64_t process,
                                const worker_reaction& effects) {
  const auto to_shard = [this](std::uint64_t primary, std::uint32_t s,
                               auto&& call) {
    deliver([this, primary, s, call] {
      auto& to = servers_[primary];
      if (to.is_alive)
        perform(primary, s, call(*to.copies[s].machine));
    });
  };
  for (const auto& one : effects)
    std::visit(
      overloaded{
        [&](const send_accepted& x) {
          to_shard(x.primary, x.shard,
                   [what = x.accepted](shard_copy& to) { return to.on(what); });
        },
        [&](const send_push& x) {
          to_shard(x.primary, x.shard, [process, x](shard_copy& to) {
            return to.on(process, x.push, x.gradient);
          });
        },
        [&](const send_pull& x) {
          to_shard(x.primary, x.shard,
                   [process, what = x.pull](shard_copy& to) {
                     return to.on(process, what);
                   });
        },
        [&](const send_contributed& x) {
          to_chief(x.contributed.view_id,
                   [what = x.contributed](auto& to) { return to.on(what); });
        },
        [&](const push_done& x) { on_push_done(process, x); },
        [&](const pull_done&) { fail("a pull ends without an answer"); },
        [&](const worker_error& x) {
          fail("a push was rejected: " + std::to_string(int(x.result)));
        },
      },
      one);
}

/// A push of a replica is done: tells the chief how many steps are.
void random_server_job::on_push_done(std::uint64_t process,
                                     const push_done& done) {
  acknowledged_[done.shard].insert(done.id);
  if (!done.is_decided)
    accepted_[done.shard].insert(done.id);
  auto& from = workers_[process];
  auto& self = from.replicas.at(done.id.replica);
  ++self.parts_done[done.id.step];
  const auto before = self.contributed;
  while (self.parts_done[self.contributed] == all_parts_)
    ++self.contributed;
  if (self.contributed > before)
    perform(process,
            from.machine->contributed(done.id.replica, self.contributed));
}

void random_server_job::to_chief(
  std::uint64_t view_id,
  std::function<decision_reaction(step_decisions&)> call) {
  deliver([this, process = chief_of_.at(view_id), call] {
    auto& to = chiefs_[process];
    if (to.is_alive)
      perform(call(*to.machine));
  });
}

void random_server_job::perform(const decision_reaction& effects) {
  const auto to_shard = [this](std::uint64_t primary, std::uint32_t s,
                               const auto& what) {
    deliver([this, primary, s, what] {
      auto& to = servers_[primary];
      if (to.is_alive)
        perform(primary, s, to.copies[s].machine->on(what));
    });
  };
  for (const auto& one : effects)
    std::visit(overloaded{
                 [&](const send_decision_query& x) {
                   to_shard(x.primary, x.shard, x.decision_query);
                 },
                 [&](const send_decision& x) {
                   to_shard(x.primary, x.shard, x.decision);
                 },
                 [&](const protocol_error& x) { fail(x.reason); },
               },
               one);
}

/// All shards take the same contributions to a synchronous step, and none
/// before all others have the step before it.
void random_server_job::check_update(std::uint32_t s, const update& made) {
  if (rules_[s][made.part].kind != consistency_kind::synchronous)
    return;
  const auto step = made.version - 1;
  contributions given;
  for (const auto& c : made.contributions)
    given.insert({c.pushed.id.replica, c.pushed.id.step});
  const auto [first, is_new] = decided_.try_emplace(step, given);
  if (first->second != given)
    fail("shards apply different decisions on step " + std::to_string(step));
  for (std::uint32_t other = 0; other < shards_; ++other)
    if (decisions_of(other).value_or(step) < step)
      fail("a shard is two decisions ahead of another");
}

void random_server_job::perform(std::uint64_t process, std::uint32_t s,
                                const shard_reaction& effects) {
  auto& self = servers_[process].copies[s];
  const auto to_worker = [this](std::uint64_t receiver, auto&& call) {
    deliver([this, receiver, call] {
      auto& to = workers_[receiver];
      if (to.is_alive)
        call(receiver, to);
    });
  };
  const auto to_copy = [this, s](std::uint64_t receiver, auto&& call) {
    deliver([this, receiver, s, call] {
      auto& to = servers_[receiver];
      if (to.is_alive)
        call(receiver, to.copies[s]);
    });
  };
  for (const auto& one : effects)
    std::visit(
      overloaded{
        [&](const apply& x) {
          const auto& made = x.update;
          // What a backup has can be lost before the primary applies it.
          if (self.machine->is_primary())
            check_update(s, made);
          for (const auto& c : made.contributions)
            if (!self.applied[made.part]
                   .insert({c.pushed.id.replica, c.pushed.id.step})
                   .second)
              fail("a contribution is applied twice");
          for (const auto& c : made.dropped)
            self.dropped[made.part].insert(
              {c.pushed.id.replica, c.pushed.id.step});
        },
        [&](const answer_push& x) {
          if (x.pushed.result <= push_result::decided)
            check_serving(process, s);
          repeated_ += x.pushed.result == push_result::repeated;
          stale_ += x.pushed.result == push_result::stale_view;
          dropped_ += x.pushed.result == push_result::decided;
          to_worker(x.worker,
                    [this, s, what = x.pushed](std::uint64_t to, auto& at) {
                      perform(to, at.machine->on(s, what));
                    });
        },
        [&](const answer_pull& x) {
          check_serving(process, s);
          to_worker(x.worker, [this, s, what = x.pulled, read = self.applied](
                                std::uint64_t to, auto& at) {
            for (const auto& done : at.machine->on(s, what))
              on_pulled(to, std::get<pull_done>(done), read);
          });
        },
        [&](const answer_decision& x) {
          to_chief(x.decided.view_id,
                   [s, what = x.decided](auto& to) { return to.on(s, what); });
        },
        [&](const answer_decision_query& x) {
          to_chief(
            x.last_decision.view_id,
            [s, what = x.last_decision](auto& to) { return to.on(s, what); });
        },
        [&](const send_record& x) {
          to_copy(x.backup, [this, s, x](std::uint64_t to, auto& at) {
            perform(to, s, at.machine->on(x.record, x.gradient));
          });
        },
        [&](const send_snapshot& x) {
          to_copy(
            x.backup, [this, s, x, applied = self.applied,
                       dropped = self.dropped](std::uint64_t to, auto& at) {
              const auto effects = at.machine->on(x.snapshot, x.gradients);
              if (!effects.empty()
                  && std::holds_alternative<install_snapshot>(effects[0])) {
                at.applied = applied;
                at.dropped = dropped;
                at.term = at.machine->position().term;
              }
              perform(to, s, effects);
            });
        },
        [&](const drop_state&) {
          self.applied = self.dropped = values(rules_[s].size());
        },
        [&](const install_snapshot&) {},
        [&](const send_inquire& x) {
          to_copy(x.backup,
                  [this, s, what = x.inquire](std::uint64_t to, auto& at) {
                    perform(to, s, at.machine->on(what));
                  });
        },
        [&](const send_stored& x) {
          if (x.stored.has_state) {
            const auto term = self.machine->position().term;
            kept_ += std::exchange(self.term, term) != term;
          }
          to_copy(x.primary,
                  [this, s, what = x.stored](std::uint64_t to, auto& at) {
                    perform(to, s, at.machine->on(what));
                  });
        },
        [&](const send_in_sync& x) {
          to_copy(x.backup,
                  [this, s, what = x.in_sync](std::uint64_t to, auto& at) {
                    perform(to, s, at.machine->on(what));
                  });
        },
        [&](const send_serving& x) {
          check_serving(process, s);
          for (const auto receiver : x.workers)
            to_worker(receiver,
                      [this, s, what = x.serving](std::uint64_t to, auto& at) {
                        perform(to, at.machine->on(s, what));
                      });
        },
        [&](const protocol_error& x) { fail(x.reason); },
      },
      one);
}

// -- views --------------------------------------------------------------------

/// True if each shard has another copy that can become the primary.
bool random_server_job::can_spare_server(std::uint64_t process) const {
  for (std::uint32_t s = 0; s < shards_; ++s) {
    bool has_other = false;
    for (const auto& [other, one] : servers_) {
      const auto position = one.copies[s].machine->position();
      has_other |= other != process && one.is_alive && !one.is_excluded
                   && position.is_in_sync && position.term == placed_[s].term
                   && position.view_id == view_id_;
    }
    if (!has_other)
      return false;
  }
  return true;
}

void random_server_job::inject() {
  const auto choose = [this](auto& all) -> std::uint64_t {
    std::vector<std::uint64_t> found;
    for (const auto& [process, one] : all)
      if (one.is_alive && !one.is_excluded)
        found.push_back(process);
    return found[below(found.size())];
  };
  const auto end = [this](auto& one) {
    const bool dies = chance(60);
    (dies ? one.is_alive : one.is_excluded) = !dies;
    ++(dies ? deaths_ : exclusions_);
  };
  const auto which = below(100);
  if (which < 45) {
    const auto process = choose(servers_);
    if (!can_spare_server(process))
      return;
    end(servers_[process]);
    if (chance(70))
      add_server();
  } else if (which < 70) {
    const auto process = choose(workers_);
    add_worker();
    end(workers_[process]);
  } else if (which < 95) {
    const auto is_unfinished = [this] {
      std::set<std::uint64_t> decisions;
      for (std::uint32_t s = 0; s < shards_; ++s)
        if (const auto count = decisions_of(s))
          decisions.insert(*count);
      return decisions.size() > 1;
    };
    if (chance(50)) // often when a decision is on its way
      run_until(now_ + 200, is_unfinished);
    end(chiefs_[chief_]);
    add_chief();
    ++successions_;
    unfinished_ += is_unfinished();
  }
  change_view();
}

/// Makes the next view of the processes that are alive and not excluded. All of
/// them learn it, at different times.
void random_server_job::change_view() {
  ++view_id_;
  const auto is_member = [](const auto& one) {
    return one.second.is_alive && !one.second.is_excluded;
  };
  for (std::uint32_t s = 0; s < shards_; ++s) {
    auto& to = placed_[s];
    if (to.primary == 0) {
      to.primary =
        std::next(servers_.begin(), std::int64_t(s % servers_.size()))->first;
      to.term = view_id_;
    } else if (!is_member(*servers_.find(to.primary))) {
      std::uint64_t best = 0, highest = 0;
      for (const auto& one : servers_) {
        const auto position = one.second.copies[s].machine->position();
        // Members report their positions in the view before the change.
        if (is_member(one) && position.is_in_sync && position.term == to.term
            && position.view_id + 1 == view_id_
            && (best == 0 || position.sequence > highest)) {
          best = one.first;
          highest = position.sequence;
        }
      }
      if (best == 0)
        return fail("no copy can become the primary");
      to.previous_term = std::exchange(to.term, view_id_);
      to.primary = best;
      ++promotions_;
    }
    const bool moves = chance(20); // the backups
    std::erase_if(to.backups, [&](std::uint64_t x) {
      return x == to.primary || !is_member(*servers_.find(x))
             || (moves && chance(50));
    });
    std::vector<std::uint64_t> others;
    for (const auto& one : servers_)
      if (is_member(one))
        others.push_back(one.first);
    std::ranges::shuffle(others, random_);
    for (const auto x : others)
      if (x != to.primary && to.backups.size() + 1 < copies_
          && !std::ranges::count(to.backups, x))
        to.backups.push_back(x);
    std::ranges::sort(to.backups);
  }
  std::vector<std::uint64_t> workers;
  for (const auto& one : workers_)
    if (is_member(one))
      workers.push_back(one.first);
  for (auto& [id, host] : hosts_)
    if (std::ranges::count(workers, host) == 0) {
      host = workers[below(workers.size())];
      ++adoptions_;
    }
  workers_of_[view_id_] = workers;
  chief_of_[view_id_] = chief_;
  for (const auto& one : servers_)
    if (is_member(one))
      enter_view(one.first);
  for (const auto process : workers)
    enter_view(process);
  enter_view(chief_);
}

void random_server_job::enter_view(std::uint64_t process) {
  if (has_faults_ && view_id_ > 1 && chance(15))
    return; // it learns the view after it
  std::vector<std::uint64_t> workers, primaries;
  for (const auto& [one, state] : workers_)
    if (state.is_alive && !state.is_excluded)
      workers.push_back(one);
  for (const auto& one : placed_)
    primaries.push_back(one.primary);
  at(1 + below(2 * max_delay_),
     [=, this, view_id = view_id_, placed = placed_, hosts = hosts_] {
       if (const auto found = servers_.find(process); found != servers_.end()) {
         for (std::uint32_t s = 0; found->second.is_alive && s < shards_; ++s) {
           auto& to = found->second.copies[s];
           const auto& where = placed[s];
           const auto effects =
             to.machine->on_view({view_id, where.term, where.previous_term,
                                  where.primary, where.backups, workers});
           perform(process, s, effects);
         }
         return;
       }
       if (const auto found = chiefs_.find(process); found != chiefs_.end()) {
         if (found->second.is_alive)
           perform(found->second.machine->on_view({view_id, primaries}));
         return;
       }
       auto& to = workers_[process];
       if (!to.is_alive)
         return;
       entered_[process] = std::max(entered_[process], view_id);
       perform(process, to.machine->on_view({view_id, primaries}));
       std::vector<std::uint32_t> moved;
       for (const auto& [id, unused] : to.replicas)
         if (hosts.at(id) != process)
           moved.push_back(id);
       for (const auto id : moved) {
         to.machine->release(id);
         to.replicas.erase(id);
       }
       for (const auto& [id, host] : hosts)
         if (host == process && hosts_.at(id) == process
             && !to.replicas.contains(id))
           start_replica(process, id, view_id > 1);
     });
}

/// A primary serves: it is the only one of its view, all workers have entered
/// the view if it was a backup before, and it has all contributions that were
/// acknowledged.
void random_server_job::check_serving(std::uint64_t process, std::uint32_t s) {
  const auto& machine = *servers_[process].copies[s].machine;
  const auto [first, is_new] =
    served_.try_emplace({machine.view_id(), s}, process);
  if (first->second != process)
    fail("two primaries of a shard serve in one view");
  if (machine.position().term > 1)
    for (const auto one : workers_of_[machine.position().term])
      if (entered_[one] < machine.position().term
          && std::ranges::count(workers_of_[machine.view_id()], one) > 0)
        fail("a new primary serves before a worker has accepted it");
  if (machine.view_id() != view_id_)
    return;
  for (const auto& id : acknowledged_[s])
    if (machine.contributions(id.part).check(id.replica, id.step)
        != push_result::repeated)
      fail("an acknowledged contribution is lost");
}

// -- the end ------------------------------------------------------------------

std::optional<std::uint64_t>
random_server_job::decisions_of(std::uint32_t s) const {
  const auto& primary = *servers_.at(placed_[s].primary).copies[s].machine;
  for (std::uint32_t p = 0; p < rules_[s].size(); ++p)
    if (rules_[s][p].kind == consistency_kind::synchronous)
      return primary.contributions(p).version();
  return {};
}

bool random_server_job::is_done() const {
  for (const auto& [id, host] : hosts_) {
    const auto& process = workers_.at(host);
    const auto found = process.replicas.find(id);
    if (found == process.replicas.end() || found->second.is_adopted
        || found->second.step < steps_ || process.machine->unacknowledged() > 0)
      return false;
  }
  for (std::uint32_t s = 0; s < shards_; ++s)
    if (decisions_of(s).value_or(steps_) < steps_)
      return false;
  return true;
}

bool random_server_job::all_backups_follow() const {
  for (std::uint32_t s = 0; s < shards_; ++s)
    for (const auto backup : placed_[s].backups) {
      const auto at = servers_.at(backup).copies[s].machine->position();
      if (at.view_id != view_id_ || !at.is_in_sync)
        return false;
    }
  return true;
}

/// Each contribution is applied, or a decision does not name it. Then it is
/// listed as dropped, if it was accepted before the decision. All copies in
/// sync are equal.
void random_server_job::check_end() {
  for (std::uint32_t s = 0; s < shards_; ++s) {
    const auto& primary = servers_[placed_[s].primary].copies[s];
    for (std::uint32_t p = 0; p < rules_[s].size(); ++p) {
      const auto& rule = rules_[s][p];
      const bool has_late = rule.backup_workers > 0;
      contributions expected;
      for (std::uint64_t t = 0; t < steps_; ++t)
        if (has_late) {
          contributions given; // it may have been applied as a backup
          for (const auto& x : primary.applied[p])
            if (x.second == t)
              given.insert(x);
          const auto& all = decided_.try_emplace(t, given).first->second;
          expected.insert(all.begin(), all.end());
          if (all.size() != replicas_ - backup_workers_)
            fail("a decision names too many or too few contributions");
        } else
          for (std::uint32_t r = 0; r < replicas_; ++r)
            expected.insert({r, t});
      if (primary.applied[p] != expected)
        fail("the final value of part " + std::to_string(p) + " of shard "
             + std::to_string(s) + " is wrong");
      for (const auto& x : primary.dropped[p])
        if (expected.contains(x))
          fail("a contribution that counts was dropped");
      for (const auto& x : accepted_[s])
        if (x.part == p && !expected.contains({x.replica, x.step})
            && !primary.dropped[p].contains({x.replica, x.step}))
          fail("a contribution was dropped, but is not listed");
    }
    for (const auto backup : placed_[s].backups) {
      const auto& copy = servers_[backup].copies[s];
      if (!copy.machine->position().is_in_sync)
        fail("a backup does not follow");
      if (copy.applied != primary.applied || copy.dropped != primary.dropped)
        fail("a backup differs from its primary");
    }
  }
}

} // namespace troupe::parameter_server
