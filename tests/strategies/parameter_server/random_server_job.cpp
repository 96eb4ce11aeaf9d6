#include "troupe/tests/strategies/parameter_server/random_server_job.hpp"

#include "trained.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <variant>

namespace troupe::parameter_server {

namespace {

constexpr std::uint64_t tick_interval = 60;
/// The client that begins the trainings.
constexpr std::uint64_t coordinator = 1;

/// With which a replica lets its gradients of a step be applied.
update_factors factors_of(std::uint64_t step) {
  return {false, 0, 0.5F + float(step)};
}

/// @returns the name of the message that an effect sends.
template <class Effect>
std::string_view message_name(const Effect& effect) {
  if constexpr (requires { effect.push; })
    return "push";
  else if constexpr (requires { effect.pull; })
    return "pull";
  else if constexpr (requires { effect.accepted; })
    return "accepted";
  else if constexpr (requires { effect.decision_query; })
    return "decision_query";
  else if constexpr (requires { effect.decision; })
    return "decision";
  else if constexpr (requires { effect.pushed; })
    return "pushed";
  else if constexpr (requires { effect.pulled; })
    return "pulled";
  else if constexpr (requires { effect.decided; })
    return "decided";
  else if constexpr (requires { effect.last_decision; })
    return "last_decision";
  else if constexpr (requires { effect.record; })
    return "record";
  else if constexpr (requires { effect.snapshot; })
    return "snapshot";
  else if constexpr (requires { effect.inquire; })
    return "inquire";
  else if constexpr (requires { effect.stored; })
    return "stored";
  else if constexpr (requires { effect.in_sync; })
    return "in_sync";
  else if constexpr (requires { effect.serving; })
    return "serving";
  else
    return "no message";
}

/// @returns the name of the message that one of several effects sends.
template <class Effects>
std::string_view message_of(const Effects& effect) {
  return std::visit([](const auto& x) { return message_name(x); }, effect);
}

} // namespace

random_server_job::random_server_job(std::uint64_t seed) : random_job{seed} {
  shards_ = 1 + std::uint32_t(below(3));
  copies_ = 1 + std::uint32_t(below(3));
  loss_percent_ = chance(50) ? below(20) : 0;
  late_percent_ = chance(50) ? below(10) : 0;
  max_delay_ = 1 + below(40);
  trainings_left_ = 1 + (chance(50) ? 0 : below(3));
  shapes_[0].rules.resize(shards_); // no training
  if (chance(30))
    limits_ = {1 + below(10), 5 + below(30)};
  if (chance(70))
    max_commands_ = 1 + below(12);
  if (chance(30))
    limits_.clients.max_open_commands = 1 + below(5);
  const auto servers = copies_ + below(3);
  for (std::uint64_t i = 0; i < servers; ++i)
    add_server();
  const auto workers = 1 + below(3);
  for (std::uint64_t i = 0; i < workers; ++i)
    add_worker();
  add_chief();
  placed_.resize(shards_);
  for (std::uint32_t s = 0; s < shards_; ++s)
    first_view_.push_back(below(5));
}

std::string random_server_job::run() {
  change_view();
  at(tick_interval, [this] { tick(); });
  while (trainings_left_ > 0 && beginning_.empty()) {
    begin_training();
    const auto faults = below(7);
    for (std::uint64_t i = 0; i < faults; ++i) {
      run_until(now_ + below(200), [this] { return is_done(); });
      inject();
    }
    if (chance(50))
      run_until(now_ + 5'000, [this] { return is_done(); });
  }
  run_until(now_ + 500, [this] { return is_done(); });
  end_faults();
  change_view();
  run_until(now_ + 200'000, [this] { return is_done(); });
  if (!is_done())
    fail("the job does not end");
  run_until(now_ + 20'000, [this] { return all_backups_follow(); });
  run_until(now_ + 1'000, [] { return false; });
  check_end();
  return problem_;
}

// -- trainings ----------------------------------------------------------------

random_server_job::shape random_server_job::draw_shape() {
  shape out;
  out.replicas = 1 + std::uint32_t(below(4));
  out.steps = 3 + below(10);
  if (out.replicas > 1 && chance(60))
    out.backup_workers = 1 + std::uint32_t(below(out.replicas - 1));
  const auto only = std::array{0, 1, 2, 2, 3}[below(5)]; // 3: any kinds
  for (std::uint32_t s = 0; s < shards_; ++s) {
    auto& rules = out.rules.emplace_back();
    const auto parts = s == 0 ? 1 + below(3) : below(4);
    for (std::uint64_t p = 0; p < parts; ++p) {
      const auto kind = consistency_kind(only < 3 ? only : below(3));
      rules.push_back(
        {kind, kind == consistency_kind::bounded ? std::uint32_t(below(4)) : 0,
         kind == consistency_kind::synchronous ? out.backup_workers : 0});
    }
  }
  return out;
}

/// Asks all shards to begin the next training. The one before ends, whether all
/// its steps are done or not.
void random_server_job::begin_training() {
  is_completed_ = training_ > 0 && is_done();
  if (training_ > 0)
    count(is_completed_ ? "trainings completed" : "trainings cut short");
  --trainings_left_;
  shapes_[training_ + 1] = draw_shape();
  for (std::uint32_t s = 0; s < shards_; ++s)
    beginning_.insert(s);
  send_begins();
}

void random_server_job::send_begins() {
  const auto next = training_ + 1;
  for (const auto s : beginning_) {
    const auto to = placed_[s].primary;
    const auto& drawn = shapes_.at(next);
    const command what{{coordinator, training_},
                       training_,
                       false,
                       {trained(drawn.rules[s], drawn.replicas, next)}};
    deliver(coordinator, to, "command", [this, to, s, what] {
      auto& receiver = servers_[to];
      if (receiver.is_alive)
        perform(
          to, s,
          receiver.copies[s].machine->on(
            what, {std::make_shared<const content>(content{s, what.id}), 1}));
    });
  }
}

/// A copy has begun a training.
void random_server_job::on_begin(std::uint32_t s, copy& at,
                                 const training& begun) {
  if (begun.number <= at.training)
    fail("a training begins after a later one");
  if (at.machine->is_primary() && is_completed_ && at.training == training_)
    for (std::uint32_t p = 0; p < at.parts.size(); ++p)
      check_part(s, p, at.parts[p]);
  at.training = begun.number;
  at.parts = values(begun.parts.size());
}

/// All shards have begun the training: tells the workers and the chief.
void random_server_job::start_training() {
  ++training_;
  for (auto* const all : {&acknowledged_, &accepted_, &late_})
    all->clear();
  committed_.clear();
  pull_steps_.clear();
  went_on_at_.clear();
  decided_.clear();
  decided_factors_.clear();
  hosts_.clear();
  read_.clear();
  for (const auto& rules : now().rules)
    read_.emplace_back(rules.size());
  for (std::uint32_t r = 0; r < now().replicas; ++r)
    hosts_[r] = choose(workers_);
  for (auto& [process, one] : workers_)
    if (one.is_alive && !one.is_excluded)
      at(1 + below(max_delay_), [this, process = process] {
        if (auto& to = workers_[process]; to.is_alive)
          start_training(process, to);
      });
  at(1 + below(max_delay_), [this, process = chief_] {
    auto& chief = chiefs_[process];
    if (process != chief_ || !chief.is_alive)
      return;
    chief.machine = new_chief(process);
    for (std::uint32_t s = 0; s < shards_; ++s)
      perform(process, chief.machine->on_view(s, chief.views[s]));
  });
}

void random_server_job::start_training(std::uint64_t process,
                                       worker_process& one) {
  if (one.training == training_)
    return;
  one.training = training_;
  one.machine = std::make_unique<worker>(process, shards_, training_);
  one.replicas.clear();
  for (std::uint32_t s = 0; s < shards_; ++s)
    perform(process, one.machine->on_view(s, one.views[s]));
  for (const auto& [id, host] : hosts_)
    if (host == process)
      start_replica(process, id, chance(50));
}

/// True if the copy is in the training that the oracles are about.
bool random_server_job::is_current(const copy& one) const {
  return one.training == training_
         && one.machine->current().number == training_;
}

std::unique_ptr<step_decisions>
random_server_job::new_chief(std::uint64_t process) const {
  return std::make_unique<step_decisions>(
    shards_, now().replicas, now().backup_workers, training_, process);
}

// -- time ---------------------------------------------------------------------

/// All timers of all processes.
void random_server_job::tick() {
  send_begins();
  for (auto& [process, one] : servers_)
    if (one.is_alive)
      for (std::uint32_t s = 0; s < shards_; ++s)
        perform(process, s, one.copies[s].machine->on_timeout());
  for (auto& [process, one] : workers_)
    if (one.is_alive) {
      perform(process, one.machine->on_timeout());
      for (const auto& [id, replica] : one.replicas)
        if (!replica.is_adopted)
          report(process, id);
      for (const auto& [s, commands] : one.commands)
        for (const auto* all : {&commands.open, &commands.reads})
          for (const auto& [number, open] : *all)
            send_command(process, s, open.what);
    }
  for (auto& [process, one] : chiefs_)
    if (one.is_alive)
      perform(process, one.machine->on_timeout());
  at(tick_interval, [this] { tick(); });
}

std::string random_server_job::state_of(std::uint64_t process) const {
  if (const auto found = servers_.find(process); found != servers_.end()) {
    if (!found->second.is_alive)
      return "dead server";
    // The copies of a server are in states of their own: the first is named.
    const auto& copies = found->second.copies;
    const auto named = std::ranges::find_if(
      copies, [](const copy& x) { return x.machine->is_primary(); });
    const auto s = named == copies.end() ? 0 : named - copies.begin();
    return state_of(std::uint32_t(s), copies[std::size_t(s)]);
  }
  if (const auto found = chiefs_.find(process); found != chiefs_.end())
    return !found->second.is_alive
             ? "dead chief"
             : std::string{found->second.machine->queries()
                             ? "chief that queries"
                             : "chief that decides"}
                 + (process != chief_ ? ", replaced" : "")
                 + (has_other_decisions() ? ", shards differ" : "");
  const auto found = workers_.find(process);
  return found == workers_.end() ? "no process" : state_of(found->second);
}

std::string random_server_job::state_of(std::uint32_t s,
                                        const copy& one) const {
  const auto& machine = *one.machine;
  const auto position = machine.position();
  std::string out;
  if (machine.is_primary())
    out = machine.serves() ? "primary that serves" : "primary that waits";
  else if (position.is_in_sync)
    out = "backup in sync";
  else
    out = position.sequence > 0 ? "backup with a state" : "copy without state";
  if (machine.log_records() > 0)
    out += ", with records";
  if (position.term != placed_[s].term)
    out += ", of an older term";
  else if (position.view_id != view_of(s))
    out += ", in an older view";
  if (machine.parts() == 0)
    return out;
  const auto kind = machine.contributions(0).rule().kind;
  return out
         + (kind == consistency_kind::asynchronous ? ", asynchronous"
            : kind == consistency_kind::bounded    ? ", bounded"
                                                   : ", synchronous");
}

std::string random_server_job::state_of(const worker_process& one) const {
  if (!one.is_alive)
    return "dead worker";
  std::string out = one.is_excluded ? "excluded worker" : "worker";
  const auto any = [&](auto&& is) {
    return std::ranges::any_of(one.replicas,
                               [&](const auto& x) { return is(x.second); });
  };
  if (any([](const replica& x) { return x.is_adopted; }))
    out += ", asks for a step";
  if (any([](const replica& x) { return !x.reading.empty(); }))
    out += ", reads";
  if (one.machine->unacknowledged() > 0)
    out += ", pushes";
  return one.replicas.empty() ? out + ", without replicas" : out;
}

// -- processes ----------------------------------------------------------------

void random_server_job::add_server() {
  const auto process = next_incarnation_++;
  auto& added = servers_[process];
  for (std::uint32_t s = 0; s < shards_; ++s)
    added.copies.push_back(
      {std::make_unique<shard_copy>(process, training{}, limits_)});
}

void random_server_job::add_worker() {
  const auto process = next_incarnation_++;
  auto& added = workers_[process];
  added.machine = std::make_unique<worker>(process, shards_, training_);
  added.training = training_;
  added.views.resize(shards_);
  added.commands_left = max_commands_ > 0 ? below(max_commands_ + 1) : 0;
  if (added.commands_left > 0)
    at(1 + below(40), [this, process] { issue(process); });
}

void random_server_job::add_chief() {
  chief_ = next_incarnation_++;
  chiefs_[chief_].machine = new_chief(chief_);
  chiefs_[chief_].views.resize(shards_);
}

/// The chief was replaced, but the views go on: all shards have the primary and
/// the copies that they had.
void random_server_job::enter_chief() {
  if (chief_of_.at(view_id_) == chief_)
    return;
  count("chiefs replaced in a view");
  chief_of_[view_id_] = chief_;
  enter_view(chief_);
  for (const auto& [process, one] : workers_)
    if (one.is_alive && !one.is_excluded)
      at(1 + below(2 * max_delay_), [this, process = process, chief = chief_] {
        auto& to = workers_[process].chief;
        to = std::max(to, chief);
      });
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
  for (std::uint32_t s = 0; s < shards_; ++s)
    if (self.is_adopted || chance(50))
      pull_from(process, id, s);
    else
      begin_read_in_place(process, id, s, 1);
}

std::vector<std::uint32_t>
random_server_job::parts_of(std::uint32_t s, std::uint64_t training) const {
  std::vector<std::uint32_t> parts(shapes_.at(training).rules[s].size());
  std::iota(parts.begin(), parts.end(), 0u);
  return parts;
}

void random_server_job::pull_from(std::uint64_t process, std::uint32_t id,
                                  std::uint32_t s) {
  auto& from = workers_[process];
  perform(process, from.machine->pull(s, id, from.replicas[id].step,
                                      parts_of(s, from.training)));
}

/// A replica begins to read the memory of a server, which may have died.
void random_server_job::begin_read_in_place(std::uint64_t process,
                                            std::uint32_t id, std::uint32_t s,
                                            int tries) {
  auto& from = workers_[process];
  const auto what = from.machine->read_in_place(s, id, from.replicas[id].step,
                                                parts_of(s, from.training));
  if (!what || tries > max_reads_in_place)
    return pull_from(process, id, s);
  const auto& memory = servers_.at(what->primary).copies[s];
  memory_read read{
    *what, memory.machine->answer_in_place(what->pull), {}, tries};
  for (const auto& part : memory.parts)
    read.sums.push_back(part.sum);
  // Sometimes the process is stopped while it reads.
  at(1 + below(chance(20) ? 600 : max_delay_),
     [this, process, read] { end_read_in_place(process, read); });
}

void random_server_job::end_read_in_place(std::uint64_t process,
                                          const memory_read& read) {
  const auto s = read.what.shard;
  const auto& wanted = read.what.pull;
  auto& from = workers_[process];
  const auto found = from.replicas.find(wanted.replica);
  if (!from.is_alive || wanted.training != from.training
      || found == from.replicas.end() || found->second.is_adopted
      || found->second.step != wanted.step
      || !found->second.reading.contains(s))
    return; // the replica was moved away
  const auto& memory = servers_.at(read.what.primary).copies[s];
  const auto after = memory.machine->answer_in_place(wanted);
  if (!from.machine->counts(read.what, read.before, after)) {
    count("reads in place that do not count");
    return begin_read_in_place(process, wanted.replica, s, read.tries + 1);
  }
  count("reads in place");
  for (std::uint32_t p = 0; p < memory.parts.size(); ++p)
    if (memory.parts[p].sum != read.sums[p])
      fail("a part was read in place while it changed");
  const bool is_now = is_current(memory);
  if (is_now)
    check_read(s, *after, wanted.step, memory.parts);
  if (is_now && !from.is_excluded) // else its pushes do not count
    for (const auto& id : acknowledged_[s])
      if (memory.machine->contributions(id.part).check(id.replica, id.step)
          != push_result::repeated)
        fail("a read in place lacks an acknowledged contribution");
  on_pulled(process, {s, wanted.replica, wanted.step, after->next_step,
                      after->versions});
}

void random_server_job::on_pulled(std::uint64_t process,
                                  const pull_done& done) {
  auto& self = workers_[process].replicas[done.replica];
  if (done.step != self.step || self.reading.erase(done.shard) == 0)
    return fail("an answer to no pull");
  self.lowest_next = std::min(self.lowest_next, done.next_step);
  self.versions[done.shard] = done.versions;
  if (self.reading.empty())
    on_read(process, done.replica);
}

/// What a replica reads contains all contributions that its rule promises.
void random_server_job::check_read(std::uint32_t s, const pulled& read,
                                   std::uint64_t step,
                                   const values& read_values) {
  check_order(s, read_values);
  for (std::uint32_t p = 0; p < read_values.size(); ++p) {
    const auto& rule = now().rules[s][p];
    const auto has = [&](std::uint32_t r, std::uint64_t below_step) {
      for (std::uint64_t t = 0; t < below_step; ++t)
        if (!read_values[p].applied.contains({r, t}))
          return false;
      return true;
    };
    if (rule.kind == consistency_kind::synchronous) {
      if (read.versions[p] < step)
        fail("a synchronous part was read too early");
      // Unless another worker has contributed to the step for this replica.
      if (rule.backup_workers == 0 && read.versions[p] != step
          && read.next_step <= step)
        fail("a synchronous part is ahead of a replica");
      continue;
    }
    if (!has(read.replica, step))
      fail("a replica does not read its own contributions");
    if (rule.kind == consistency_kind::bounded && step > rule.max_staleness)
      for (std::uint32_t r = 0; r < now().replicas; ++r)
        if (!has(r, step - rule.max_staleness))
          fail("a read is more stale than its bound");
  }
}

/// All that was read of a part is a beginning of one order.
void random_server_job::check_order(std::uint32_t s,
                                    const values& read_values) {
  for (std::uint32_t p = 0; p < read_values.size(); ++p) {
    auto& longest = read_[s][p];
    const auto& read = read_values[p].applied_order;
    if (!begin_alike(read, longest))
      fail("two replicas have read contributions in different orders");
    if (read.size() > longest.size())
      longest = read;
  }
}

/// @returns the gradient of a push. Another worker that repeats a step of an
///          asynchronous part reads other parameters.
std::int64_t random_server_job::gradient_of(std::uint64_t process,
                                            std::uint64_t training,
                                            std::uint32_t s,
                                            const push_id& id) const {
  const auto number = std::int64_t(
    1
    + (training * 53 + id.replica * 131 + id.step * 31 + id.part * 17 + s * 7)
        % 97);
  return shapes_.at(training).rules[s][id.part].kind
             == consistency_kind::synchronous
           ? number
           : number + 100 * std::int64_t(process);
}

/// All shards have answered: the replica computes, and pushes.
void random_server_job::on_read(std::uint64_t process, std::uint32_t id) {
  auto& from = workers_[process];
  auto& self = from.replicas[id];
  const auto& mine = shapes_.at(from.training);
  if (self.is_adopted) {
    self.is_adopted = false;
    self.step = self.contributed = self.lowest_next;
    if (from.training == training_)
      went_on_at_[id] = std::max(went_on_at_[id], self.step);
    report(process, id);
    if (self.step < mine.steps)
      read(process, id);
    return;
  }
  const auto step = self.step++;
  const auto versions = self.versions;
  for (std::uint32_t s = 0; s < shards_; ++s)
    for (std::uint32_t p = 0; p < mine.rules[s].size(); ++p) {
      const push_id push{id, step, p};
      const gradient made{s, push, gradient_of(process, from.training, s, push),
                          from.training};
      perform(process,
              from.machine->push(
                s, push, versions.at(s)[p], factors_of(push.step),
                {std::make_shared<const gradient>(made), 1 + below(9)}));
    }
  if (self.step < mine.steps)
    at(1 + below(5), [this, process, id, training = from.training] {
      auto& x = workers_[process];
      if (x.is_alive && x.training == training && x.replicas.contains(id))
        read(process, id);
    });
}

void random_server_job::perform(std::uint64_t process,
                                const worker_reaction& effects) {
  std::string_view message;
  const auto to_shard = [&](std::uint64_t primary, std::uint32_t s,
                            auto&& call) {
    deliver(process, primary, message, [this, primary, s, call] {
      auto& to = servers_[primary];
      if (to.is_alive)
        perform(primary, s, call(*to.copies[s].machine));
    });
  };
  for (const auto& one : effects) {
    message = message_of(one);
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
          if (x.pull.training == training_
              && !workers_[process].replicas[x.pull.replica].is_adopted)
            pull_steps_[{process, x.pull.number}] = x.pull.step;
          to_shard(x.primary, x.shard,
                   [process, what = x.pull](shard_copy& to) {
                     return to.on(process, what);
                   });
        },
        [&](const push_done& x) { on_push_done(process, x); },
        [&](const pull_done&) { fail("a pull ends without an answer"); },
        [&](const worker_error& x) {
          if (x.result == push_result::training_ended)
            count("pushes of an ended training");
          else
            fail("a push was rejected: " + std::to_string(int(x.result)));
        },
      },
      one);
  }
}

/// A push of a replica is done: tells the chief how many steps are.
void random_server_job::on_push_done(std::uint64_t process,
                                     const push_done& done) {
  auto& from = workers_[process];
  if (from.training == training_)
    (done.is_decided ? late_ : accepted_)[done.shard].insert(done.id);
  auto& self = from.replicas.at(done.id.replica);
  ++self.parts_done[done.id.step];
  const auto before = self.contributed;
  std::size_t all_parts = 0;
  for (const auto& rules : shapes_.at(from.training).rules)
    all_parts += rules.size();
  while (self.parts_done[self.contributed] == all_parts)
    ++self.contributed;
  if (self.contributed > before)
    report(process, done.id.replica);
}

/// Tells the chief that the worker knows to how many steps a replica has
/// contributed.
void random_server_job::report(std::uint64_t process, std::uint32_t id) {
  const auto& from = workers_[process];
  if (from.chief == 0)
    return;
  const contributed what{id, from.replicas.at(id).contributed, from.training};
  to_chief(process, from.chief, "contributed",
           [what](auto& to) { return to.on(what); });
}

void random_server_job::to_chief(
  std::uint64_t sender, std::uint64_t process, std::string_view message,
  std::function<decision_reaction(step_decisions&)> call) {
  deliver(sender, process, message, [this, process, call] {
    auto& to = chiefs_[process];
    if (to.is_alive)
      perform(process, call(*to.machine));
  });
}

/// A chief ignores the answers to another one.
void random_server_job::to_chiefs(
  std::uint64_t sender, std::string_view message,
  const std::function<decision_reaction(step_decisions&)>& call) {
  for (const auto& [process, one] : chiefs_)
    if (one.is_alive)
      to_chief(sender, process, message, call);
}

void random_server_job::perform(std::uint64_t process,
                                const decision_reaction& effects) {
  std::string_view message;
  const auto to_shard = [&](std::uint64_t primary, std::uint32_t s,
                            const auto& what) {
    deliver(process, primary, message, [this, primary, s, what] {
      auto& to = servers_[primary];
      if (to.is_alive)
        perform(primary, s, to.copies[s].machine->on(what));
    });
  };
  for (const auto& one : effects) {
    message = message_of(one);
    std::visit(overloaded{
                 [&](const send_decision_query& x) {
                   to_shard(x.primary, x.shard, x.decision_query);
                 },
                 [&](const send_decision& x) {
                   to_shard(x.primary, x.shard, x.decision);
                 },
                 [&](const ask_factors& x) {
                   at(below(10),
                      [this, process, step = x.step, training = training_] {
                        auto& to = chiefs_[process];
                        const update_factors factors{true, float(process),
                                                     float(below(100))};
                        if (to.is_alive && training == training_)
                          perform(process, to.machine->decide(step, factors));
                      });
                 },
                 [&](const chief_superseded&) {
                   count("chiefs superseded");
                   if (process == chief_)
                     fail("the last chief is superseded");
                 },
                 [&](const protocol_error& x) { fail(x.reason); },
               },
               one);
  }
}

/// All shards take the same contributions to a synchronous step, and none
/// before all others have the step before it.
void random_server_job::check_update(std::uint32_t s, const update& made) {
  const auto kind = now().rules[s][made.part].kind;
  if (made.is_decided != (kind == consistency_kind::synchronous))
    fail("an update was made without a decision");
  if (!made.is_decided) {
    if (made.factors != factors_of(made.contributions.at(0).pushed.id.step))
      fail("a gradient is applied with the factors of another one");
    return;
  }
  const auto step = made.version - 1;
  contributions given;
  for (const auto& c : made.contributions) {
    given.insert({c.pushed.id.replica, c.pushed.id.step});
    if (c.pushed.read_version != step)
      fail("a gradient that counts was computed from another version");
  }
  const auto [first, is_new] = decided_.try_emplace(step, given);
  const auto factors =
    decided_factors_.try_emplace(step, made.factors).first->second;
  if (first->second != given || factors != made.factors)
    fail("shards apply different decisions on step " + std::to_string(step));
  for (std::uint32_t other = 0; other < shards_; ++other)
    if (decisions_of(other).value_or(step) < step)
      fail("a shard is two decisions ahead of another");
}

/// Applies an update, or drops what a decision does not name.
void random_server_job::apply_to(copy& to, std::uint32_t s,
                                 const update& made) {
  auto& part = to.parts[made.part];
  const auto read = [&](const contribution& x) {
    const auto given =
      std::static_pointer_cast<const gradient>(x.gradient.tensors);
    if (!given || given->shard != s || given->id != x.pushed.id
        || given->training != to.training)
      fail("a push has the gradient of another one");
    return given ? given->number : 0;
  };
  for (const auto& c : made.contributions) {
    const auto& id = c.pushed.id;
    const auto number = read(c);
    if (!part.applied.try_emplace({id.replica, id.step}, number).second)
      fail("a contribution is applied twice");
    part.applied_order.emplace_back(id.replica, id.step);
    part.sum += number;
  }
  for (const auto& c : made.dropped) {
    read(c);
    part.dropped.insert({c.pushed.id.replica, c.pushed.id.step});
  }
}

/// A primary has applied these contributions to a part, so they stay.
void random_server_job::commit(std::uint32_t s, std::uint32_t p,
                               const part_value& part) {
  for (const auto& [which, number] : part.applied) {
    const auto [first, is_new] =
      committed_.try_emplace({s, {which.first, which.second, p}}, number);
    if (first->second != number)
      fail("a contribution has two gradients");
  }
}

void random_server_job::perform(std::uint64_t process, std::uint32_t s,
                                const shard_reaction& effects) {
  auto& self = servers_[process].copies[s];
  check_primary(process, s);
  std::string_view message;
  const auto to_worker = [&](std::uint64_t receiver, auto&& call) {
    deliver(process, receiver, message, [this, receiver, call] {
      auto& to = workers_[receiver];
      if (to.is_alive)
        call(receiver, to);
    });
  };
  const auto to_copy = [&](std::uint64_t receiver, auto&& call) {
    deliver(process, receiver, message, [this, receiver, s, call] {
      auto& to = servers_[receiver];
      if (to.is_alive)
        call(receiver, to.copies[s]);
    });
  };
  for (const auto& one : effects) {
    message = message_of(one);
    std::visit(
      overloaded{
        [&](const apply& x) {
          const auto& made = x.update;
          // What a backup has can be lost before the primary applies it.
          const bool counts =
            self.machine->is_primary() && self.training == training_;
          if (counts)
            check_update(s, made);
          apply_to(self, s, made);
          if (counts)
            commit(s, made.part, self.parts[made.part]);
        },
        [&](const answer_push& x) {
          if (x.pushed.result <= push_result::decided) {
            check_serving(process, s);
            if (x.pushed.training == training_)
              acknowledged_[s].insert(x.pushed.id);
          }
          if (x.pushed.result == push_result::repeated)
            count("repeated pushes");
          if (x.pushed.result == push_result::stale_view)
            count("pushes of an older view");
          if (x.pushed.result == push_result::decided)
            count("pushes after the decision");
          to_worker(x.worker,
                    [this, s, what = x.pushed](std::uint64_t to, auto& at) {
                      perform(to, at.machine->on(s, what));
                    });
        },
        [&](const answer_pull& x) {
          check_serving(process, s);
          const auto wanted = pull_steps_.find({x.worker, x.pulled.number});
          if (x.pulled.training != self.training)
            fail("a pull of an ended training is answered");
          if (x.pulled.training != training_)
            count("pulls of the training before");
          else if (wanted
                   == pull_steps_.end()) // a replica that asks for its step
            check_order(s, self.parts);
          else
            check_read(s, x.pulled, wanted->second, self.parts);
          to_worker(x.worker,
                    [this, s, what = x.pulled](std::uint64_t to, auto& at) {
                      for (const auto& done : at.machine->on(s, what))
                        on_pulled(to, std::get<pull_done>(done));
                    });
        },
        [&](const answer_decision& x) {
          to_chiefs(process, message,
                    [s, what = x.decided](auto& to) { return to.on(s, what); });
        },
        [&](const answer_decision_query& x) {
          to_chiefs(process, message, [s, what = x.last_decision](auto& to) {
            return to.on(s, what);
          });
        },
        [&](const send_record& x) {
          to_copy(x.backup, [this, s, x](std::uint64_t to, auto& at) {
            perform(to, s, at.machine->on(x.record, x.gradient));
          });
        },
        [&](const send_snapshot& x) {
          to_copy(
            x.backup, [this, s, x, parts = self.parts, training = self.training,
                       commands = self.commands](std::uint64_t to, auto& at) {
              const auto effects = at.machine->on(x.snapshot, x.gradients);
              if (!effects.empty()
                  && std::holds_alternative<install_snapshot>(effects[0])) {
                at.parts = parts;
                at.training = training;
                at.commands = commands;
                at.term = at.machine->position().term;
              }
              perform(to, s, effects);
            });
        },
        [&](const drop_state&) {
          self.parts = {};
          self.training = 0;
          self.commands = {};
        },
        [&](const apply_command& x) {
          apply_command_to(self.commands, s, x);
          if (self.machine->is_primary())
            commit(s, self.commands);
        },
        [&](const parameter_server::begin_training& x) {
          on_begin(s, self, x.training);
        },
        [&](const forget_client&) { fail("a client was forgotten"); },
        [&](const answer_command& x) {
          check_serving(process, s);
          const auto found = self.commands.answers.find(x.id);
          if (found == self.commands.answers.end())
            return fail("the answer to a command was forgotten");
          const auto [first, is_new] =
            answers_[s].try_emplace(x.id, found->second);
          if (is_new)
            answered_[s].push_back(x.id);
          else
            count("repeated commands");
          if (first->second != found->second)
            fail("two answers to a command differ");
          if (x.id.client == coordinator)
            return deliver(process, coordinator, message, [this, s, id = x.id] {
              if (id.number == training_ && beginning_.erase(s) > 0
                  && beginning_.empty())
                start_training();
            });
          to_worker(x.id.client, [this, s, id = x.id](std::uint64_t to, auto&) {
            on_answered(to, s, id);
          });
        },
        [&](const answer_read& x) {
          to_worker(x.id.client,
                    [this, s, id = x.id,
                     read = self.commands.performed](std::uint64_t to, auto&) {
                      on_read_answered(to, s, id, read);
                    });
        },
        [&](const refuse_command& x) {
          count(x.why == command_refusal::forgotten ? "commands given up"
                : x.why == command_refusal::busy    ? "commands beyond a limit"
                                                    : "commands to others");
          if (x.id.client == coordinator)
            return;
          const auto& commands = workers_[x.id.client].commands[s];
          if (x.why == command_refusal::forgotten && !x.is_read
              && commands.open.contains(x.id.number))
            fail("a command that waits for an answer is forgotten");
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
            if (std::exchange(self.term, term) != term)
              count("states kept under a new primary");
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
          for (std::uint32_t p = 0; is_current(self) && p < self.parts.size();
               ++p)
            commit(s, p, self.parts[p]);
          commit(s, self.commands);
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
}

// -- commands -----------------------------------------------------------------

/// A client sends its next command, and goes on later.
void random_server_job::issue(std::uint64_t process) {
  auto& self = workers_[process];
  if (!self.is_alive || self.commands_left == 0)
    return;
  const auto s = std::uint32_t(below(shards_));
  auto& commands = self.commands[s];
  if (commands.open.size() < 4) {
    --self.commands_left;
    command made;
    made.is_read = chance(40);
    auto& open = made.is_read ? commands.reads : commands.open;
    made.id = {process, made.is_read ? commands.next_read++ : commands.next++};
    open[made.id.number] = {made, answered_[s].size()};
    count(made.is_read ? "reads of a client" : "commands");
    send_command(process, s, made);
  }
  at(1 + below(40), [this, process] { issue(process); });
}

/// Sends a command to the primary that the client knows, sometimes to another
/// server.
void random_server_job::send_command(std::uint64_t process, std::uint32_t s,
                                     command what) {
  auto to = workers_[process].views[s].primary;
  if (has_faults_ && chance(15))
    to =
      std::next(servers_.begin(), std::int64_t(below(servers_.size())))->first;
  if (to == 0)
    return;
  if (!what.is_read) // an answer since then makes room
    what.answered_below = workers_[process].commands[s].open.begin()->first;
  deliver(process, to, "command", [this, to, s, what] {
    auto& receiver = servers_[to];
    if (receiver.is_alive)
      perform(
        to, s,
        receiver.copies[s].machine->on(
          what, {std::make_shared<const content>(content{s, what.id}), 1}));
  });
}

void random_server_job::apply_command_to(journal& to, std::uint32_t s,
                                         const apply_command& given) {
  const auto& id = given.command.id;
  const auto beside =
    std::static_pointer_cast<const content>(given.content.tensors);
  if (!beside || beside->shard != s || beside->id != id)
    fail("a command has the content of another one");
  if (given.command.is_read)
    fail("a read is performed as a command");
  if (std::ranges::count(to.performed, id) > 0)
    fail("a command takes effect twice");
  to.answers.erase(
    to.answers.lower_bound({id.client, 0}),
    to.answers.lower_bound({id.client, given.command.answered_below}));
  to.performed.push_back(id);
  to.answers[id] = to.performed.size();
}

/// A primary has performed these commands, so they stay, in this order.
void random_server_job::commit(std::uint32_t s, const journal& of) {
  auto& all = performed_[s];
  const auto common = std::min(all.size(), of.performed.size());
  if (!begin_alike(all, of.performed))
    fail("two copies perform commands in different orders");
  for (auto i = common; i < of.performed.size(); ++i)
    all.push_back(of.performed[i]);
}

void random_server_job::on_answered(std::uint64_t process, std::uint32_t s,
                                    const command_id& id) {
  workers_[process].commands[s].open.erase(id.number);
}

void random_server_job::on_read_answered(std::uint64_t process, std::uint32_t s,
                                         const command_id& id,
                                         const std::vector<command_id>& read) {
  auto& open = workers_[process].commands[s].reads;
  const auto found = open.find(id.number);
  if (found == open.end())
    return;
  for (std::size_t i = 0; i < found->second.answered_before; ++i)
    if (std::ranges::count(read, answered_[s][i]) == 0)
      fail("a read lacks a command that was answered before");
  open.erase(found);
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
                   && position.view_id == view_of(s);
    }
    if (!has_other)
      return false;
  }
  return true;
}

/// @returns a process of the next view.
template <class Process>
std::uint64_t
random_server_job::choose(const std::map<std::uint64_t, Process>& all) {
  std::vector<std::uint64_t> found;
  for (const auto& [process, one] : all)
    if (one.is_alive && !one.is_excluded)
      found.push_back(process);
  return found[below(found.size())];
}

/// A process dies, or lives and is left out of the next view.
template <class Process>
void random_server_job::end(std::uint64_t process, Process& one,
                            std::string_view dies,
                            std::string_view is_excluded) {
  const bool has_died = chance(60);
  meet(has_died ? dies : is_excluded, process);
  (has_died ? one.is_alive : one.is_excluded) = !has_died;
}

void random_server_job::return_later(std::function<void()> add) {
  at(1 + below(400), [this, add] {
    if (!has_faults_)
      return;
    count("processes returned");
    add();
    change_view();
  });
}

void random_server_job::end_server() {
  const auto process = choose(servers_);
  if (!can_spare_server(process))
    return;
  const bool is_primary = std::ranges::any_of(
    placed_, [&](const auto& x) { return x.primary == process; });
  auto& one = servers_[process];
  if (is_primary)
    end(process, one, "primaries died", "primaries excluded");
  else
    end(process, one, "backups died", "backups excluded");
  if (chance(40))
    add_server();
  else if (chance(60))
    return_later([this] { add_server(); });
}

void random_server_job::end_worker() {
  const auto process = choose(workers_);
  end(process, workers_[process], "workers died", "workers excluded");
  const bool has_other = std::ranges::any_of(workers_, [](const auto& x) {
    return x.second.is_alive && !x.second.is_excluded;
  });
  if (!has_other || chance(50))
    add_worker();
  else
    return_later([this] { add_worker(); });
}

void random_server_job::end_chief() {
  // Often when a decision is on its way, or has reached some shards, or reaches
  // them when another chief has decided.
  const auto moment = below(10);
  if (moment < 3) {
    std::set<std::uint64_t> servers;
    for (const auto& [process, one] : servers_)
      servers.insert(process);
    meet("chiefs cut off from shards", chief_);
    cut_links({chief_}, servers, 600);
    // The machine is another one when a training begins.
    const auto& chief = chiefs_[chief_];
    const auto next = chief.machine->queries() ? 0 : chief.machine->next_step();
    run_until(now_ + 200, [&chief, next] {
      return !chief.machine->queries() && chief.machine->next_step() > next;
    });
  } else if (moment < 5) {
    run_until(now_ + 200, [this] { return chief_decides(); });
  } else if (moment < 7) {
    run_until(now_ + 200, [this] { return has_other_decisions(); });
  }
  end(chief_, chiefs_[chief_], "chiefs died", "chiefs excluded");
  add_chief();
  if (has_other_decisions())
    count("chiefs lost when shards differed");
}

/// One fault, or two at a time, and the view that follows.
void random_server_job::inject() {
  std::vector<std::uint64_t> processes;
  const auto list = [&](const auto& all) {
    for (const auto& [process, one] : all)
      if (one.is_alive)
        processes.push_back(process);
  };
  list(servers_);
  list(workers_);
  list(chiefs_);
  bool changes_view = true;
  for (auto faults = chance(25) ? 2 : 1; faults > 0; --faults) {
    const auto which = below(100);
    if (which < 35) {
      end_server();
    } else if (which < 55) {
      end_worker();
    } else if (which < 75) {
      end_chief();
      changes_view = changes_view && chance(50);
    } else if (which < 97) {
      cut_links(processes);
      changes_view = changes_view && chance(50);
    }
  }
  if (chance(50)) // the loss is seen later
    run_until(now_ + below(150), [this] { return is_done(); });
  if (changes_view)
    change_view();
  else
    enter_chief();
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
      to.term = view_of(s);
    } else if (!is_member(*servers_.find(to.primary))) {
      std::uint64_t best = 0, highest = 0;
      for (const auto& one : servers_) {
        const auto position = one.second.copies[s].machine->position();
        // Members report their positions in the view before the change.
        if (is_member(one) && position.is_in_sync && position.term == to.term
            && position.view_id + 1 == view_of(s)
            && (best == 0 || position.sequence > highest)) {
          best = one.first;
          highest = position.sequence;
        }
      }
      if (best == 0)
        return fail("no copy can become the primary");
      to.previous_term = std::exchange(to.term, view_of(s));
      to.primary = best;
      count("promotions");
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
      count("replicas moved");
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

/// A process enters the views of all shards, each at a time of its own.
void random_server_job::enter_view(std::uint64_t process) {
  if (has_faults_ && view_id_ > 1 && chance(15))
    return meet("views missed", process); // it learns the view after it
  std::vector<std::uint64_t> workers;
  for (const auto& [one, state] : workers_)
    if (state.is_alive && !state.is_excluded)
      workers.push_back(one);
  const auto enter = [this, process](auto& of, std::uint32_t s,
                                     const shard_primary& next) {
    if (!of.is_alive || of.views[s].view_id >= next.view_id)
      return; // it has entered a newer one
    of.views[s] = next;
    perform(process, of.machine->on_view(s, next));
  };
  for (std::uint32_t s = 0; s < shards_; ++s)
    at(1 + below(2 * max_delay_), [=, this, view_id = view_of(s),
                                   where = placed_[s]] {
      if (const auto found = servers_.find(process); found != servers_.end()) {
        if (found->second.is_alive)
          perform(process, s,
                  found->second.copies[s].machine->on_view(
                    {view_id, where.term, where.previous_term, where.primary,
                     where.backups, workers}));
      } else if (const auto chief = chiefs_.find(process);
                 chief != chiefs_.end())
        enter(chief->second, s, {view_id, where.primary});
      else
        enter(workers_[process], s, {view_id, where.primary});
    });
  if (workers_.contains(process))
    at(1 + below(2 * max_delay_), [=, this, view_id = view_id_,
                                   hosts_then = hosts_, training = training_] {
      enter_hosts(process, view_id,
                  training == training_ ? hosts_then : hosts_);
    });
}

/// A worker learns which replicas it hosts, and who the chief is.
void random_server_job::enter_hosts(
  std::uint64_t process, std::uint64_t view_id,
  const std::map<std::uint32_t, std::uint64_t>& hosts) {
  auto& to = workers_[process];
  if (!to.is_alive || to.hosts_of >= view_id)
    return; // it knows newer ones
  to.hosts_of = view_id;
  to.chief = std::max(to.chief, chief_of_.at(view_id));
  std::vector<std::uint32_t> moved;
  for (const auto& [id, unused] : to.replicas)
    if (!hosts.contains(id) || hosts.at(id) != process)
      moved.push_back(id);
  for (const auto id : moved) {
    to.machine->release(id);
    to.replicas.erase(id);
  }
  for (const auto& [id, host] : hosts)
    if (host == process && hosts_.contains(id) && hosts_.at(id) == process
        && to.training == training_ && !to.replicas.contains(id))
      start_replica(process, id, view_id > 1);
}

/// A primary that serves is the only one of its view.
void random_server_job::check_primary(std::uint64_t process, std::uint32_t s) {
  const auto& machine = *servers_[process].copies[s].machine;
  if (!machine.serves())
    return;
  const auto [first, is_new] =
    served_.try_emplace({machine.view_id(), s}, process);
  if (first->second != process)
    fail("two primaries of a shard serve in one view");
}

/// A primary serves: all workers have entered the view if it was a backup
/// before, and it has all contributions that were acknowledged.
void random_server_job::check_serving(std::uint64_t process, std::uint32_t s) {
  const auto& machine = *servers_[process].copies[s].machine;
  const auto first = first_view_[s];
  if (machine.position().term > first + 1)
    for (const auto one : workers_of_[machine.position().term - first])
      if (workers_[one].views[s].view_id < machine.position().term
          && std::ranges::count(workers_of_[machine.view_id() - first], one)
               > 0)
        fail("a new primary serves before a worker has accepted it");
  if (machine.view_id() != view_of(s)
      || !is_current(servers_[process].copies[s]))
    return;
  for (const auto& id : acknowledged_[s])
    if (machine.contributions(id.part).check(id.replica, id.step)
        != push_result::repeated)
      fail("an acknowledged contribution is lost");
}

// -- the end ------------------------------------------------------------------

std::optional<std::uint64_t>
random_server_job::decisions_of(std::uint32_t s) const {
  const auto& primary = servers_.at(placed_[s].primary).copies[s];
  const auto& rules = now().rules;
  for (std::uint32_t p = 0; is_current(primary) && p < rules[s].size(); ++p)
    if (rules[s][p].kind == consistency_kind::synchronous)
      return primary.machine->contributions(p).version();
  return {};
}

/// True if the primaries have not all applied the same decisions.
bool random_server_job::has_other_decisions() const {
  std::set<std::uint64_t> decisions;
  for (std::uint32_t s = 0; s < shards_; ++s)
    if (const auto count = decisions_of(s))
      decisions.insert(*count);
  return decisions.size() > 1;
}

/// True if a decision of the chief is on its way to some shard.
bool random_server_job::chief_decides() const {
  const auto& chief = *chiefs_.at(chief_).machine;
  if (chief.queries())
    return false;
  for (std::uint32_t s = 0; s < shards_; ++s)
    if (decisions_of(s).value_or(chief.next_step()) < chief.next_step())
      return true;
  return false;
}

bool random_server_job::is_done() const {
  if (!beginning_.empty())
    return false;
  for (const auto& [id, host] : hosts_) {
    const auto& process = workers_.at(host);
    const auto found = process.replicas.find(id);
    if (process.training != training_ || found == process.replicas.end()
        || found->second.is_adopted || found->second.step < now().steps
        || process.machine->unacknowledged() > 0)
      return false;
  }
  for (const auto& [process, one] : workers_) {
    if (!one.is_alive || one.is_excluded)
      continue;
    if (one.commands_left > 0)
      return false;
    for (const auto& [s, commands] : one.commands)
      if (!commands.open.empty() || !commands.reads.empty())
        return false;
  }
  for (std::uint32_t s = 0; s < shards_; ++s)
    if (decisions_of(s).value_or(now().steps) < now().steps)
      return false;
  return true;
}

bool random_server_job::all_backups_follow() const {
  for (std::uint32_t s = 0; s < shards_; ++s)
    for (const auto backup : placed_[s].backups) {
      const auto at = servers_.at(backup).copies[s].machine->position();
      if (at.view_id != view_of(s) || !at.is_in_sync)
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
    if (!is_current(primary))
      fail("a shard has not begun the last training");
    for (std::uint32_t p = 0; p < primary.parts.size(); ++p)
      check_part(s, p, primary.parts[p]);
    for (const auto backup : placed_[s].backups) {
      const auto& copy = servers_[backup].copies[s];
      if (!copy.machine->position().is_in_sync)
        fail("a backup does not follow");
      if (copy.training != primary.training || copy.parts != primary.parts
          || copy.commands != primary.commands)
        fail("a backup differs from its primary");
    }
    check_commands(s);
  }
}

/// All commands that were answered have taken effect, where the answer says.
void random_server_job::check_commands(std::uint32_t s) {
  const auto& performed =
    servers_[placed_[s].primary].copies[s].commands.performed;
  for (const auto& [id, place] : answers_[s])
    if (place == 0 || place > performed.size() || performed[place - 1] != id)
      fail("a command that was answered has not taken effect");
  if (performed != performed_[s])
    fail("a primary lacks commands that another one has performed");
}

void random_server_job::check_part(std::uint32_t s, std::uint32_t p,
                                   const part_value& part) {
  const auto steps = now().steps;
  const auto replicas = now().replicas;
  const auto& rule = now().rules[s][p];
  const bool has_late = rule.backup_workers > 0;
  contributions expected;
  for (std::uint64_t t = 0; t < steps; ++t)
    if (has_late) {
      contributions given; // it may have been applied as a backup
      for (const auto& [which, unused] : part.applied)
        if (which.second == t)
          given.insert(which);
      const auto& all = decided_.try_emplace(t, given).first->second;
      expected.insert(all.begin(), all.end());
      if (all.size() != replicas - now().backup_workers)
        fail("a decision names too many or too few contributions");
    } else
      for (std::uint32_t r = 0; r < replicas; ++r)
        expected.insert({r, t});
  if (!std::ranges::equal(part.applied, expected, {},
                          [](const auto& x) { return x.first; }))
    fail("the final value of part " + std::to_string(p) + " of shard "
         + std::to_string(s) + " is wrong");
  const auto& read = read_[s][p];
  if (read.size() > part.applied_order.size()
      || !begin_alike(read, part.applied_order))
    fail("a replica has read what was not applied in the end");
  std::int64_t sum = 0;
  std::size_t committed = 0;
  for (const auto& [which, number] : committed_)
    if (which.first == s && which.second.part == p) {
      sum += number;
      ++committed;
    }
  if (committed != part.applied.size() || sum != part.sum)
    fail("the final parameters are not the sum of the committed gradients");
  for (const auto& x : part.dropped)
    if (expected.contains(x))
      fail("a contribution that counts was dropped");
  for (std::uint64_t t = 0; t < steps; ++t)
    for (std::uint32_t r = 0; r < replicas; ++r) {
      if (expected.contains({r, t}) || part.dropped.contains({r, t}))
        continue;
      const push_id id{r, t, p};
      if (accepted_[s].contains(id))
        fail("a contribution was dropped, but is not listed");
      if (!late_[s].contains(id) && t >= went_on_at_[r])
        fail("a contribution is neither applied nor listed, and its worker was "
             "not told");
    }
}

} // namespace troupe::parameter_server
