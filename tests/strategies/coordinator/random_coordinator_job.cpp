#include "troupe/tests/strategies/coordinator/random_coordinator_job.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

namespace troupe::coordinator {

namespace {

constexpr std::uint64_t timeout = 50;
constexpr std::uint32_t shards = 3;
constexpr std::uint64_t max_unfinished = 10;
constexpr std::int64_t total = 10; ///< x + y.

// Processes. Workers have the numbers from 1.
constexpr std::uint64_t coordinator_process = 0;
constexpr std::uint64_t shard_process(std::uint32_t s) {
  return 1'000'000 + s;
}

std::string_view name(const effect& x) {
  constexpr std::string_view names[] = {
    "send_run",     "send_cancel",    "send_decision",  "result_ready",
    "cancelled",    "error_ready",    "protocol_error", "record_end",
    "record_error", "forget_records", "send_query"};
  static_assert(std::size(names) == std::variant_size_v<effect>);
  return names[x.index()];
}

/// What a task adds to the sum.
std::int64_t number_of(std::uint64_t task) {
  return std::int64_t(1 + task * task);
}

} // namespace

random_coordinator_job::random_coordinator_job(std::uint64_t seed)
  : random_job{seed}, shards_(shards) {
  loss_percent_ = below(25);
  late_percent_ = chance(50) ? below(10) : 0;
  max_delay_ = 1 + below(30);
  tasks_ = 1 + below(40);
  shards_[0].value = total;
  for (std::uint64_t i = 0; i < tasks_; ++i)
    program_.tasks.push_back(i);
  saved_ = program_;
  // A closure that throws ends those beside it.
  for (std::uint64_t i = below(3); i > 0; --i)
    throwers_.insert(below(tasks_));
  can_throw_ = throwers_;
  machine_.emplace(shards, max_unfinished);
  for (std::uint64_t i = 0; i <= below(3); ++i)
    add_worker();
}

std::string random_coordinator_job::run() {
  at(timeout, [this] { tick(); });
  for (std::uint64_t i = below(6); i > 0; --i)
    at(below(600), [this] { inject(); });
  for (std::uint64_t i = below(4); i > 0; --i)
    at(below(600), [this] { effects_to_crash_ = 1 + below(8); });
  at(1'000, [this] {
    end_faults();
    effects_to_crash_ = 0;
    add_worker();
  });
  run_until(100'000, [this] { return is_finished(); });
  if (!is_finished())
    fail("the closures do not end");
  check_end();
  return problem_;
}

std::string random_coordinator_job::state_of(std::uint64_t process) const {
  if (process == coordinator_process) {
    if (is_down_)
      return "coordinator that is down";
    std::string out = "coordinator";
    if (machine_->has_error())
      out += " that has reported an error";
    else if (machine_->is_handling_error())
      out += " that stops closures";
    else if (machine_->is_done())
      out += " without closures";
    if (!machine_->can_schedule() && !machine_->is_handling_error())
      out += ", full";
    return life_ > 1 ? out + ", of a later life" : out;
  }
  if (process >= shard_process(0)) {
    const auto& effects = shards_[process - shard_process(0)].effects;
    return std::string{"shard"}
           + (effects.waiting() > 0 ? ", effects wait" : "")
           + (effects.decided() > 0 ? ", knows decisions" : "");
  }
  const auto found = workers_.find(process);
  if (found == workers_.end())
    return "no process";
  const auto& one = found->second;
  if (!one.is_alive)
    return "dead worker";
  const auto count = one.running_now.size();
  std::string out = count == 0   ? "worker that waits"
                    : count == 1 ? "worker that executes one"
                                 : "worker that executes some";
  if (std::ranges::any_of(one.running_now, [](const auto& x) {
        return !x.second.effects.empty();
      }))
    out += ", stores effects";
  return one.begun.size() > count ? out + ", keeps answers" : out;
}

// -- processes ----------------------------------------------------------------

/// The coordinator receives this if it is not down, in whatever life.
void random_coordinator_job::to_coordinator(
  std::uint64_t sender, std::string_view message,
  const std::function<reaction()>& receive) {
  deliver(sender, coordinator_process, message, [this, receive] {
    if (!is_down_)
      perform(receive());
  });
}

void random_coordinator_job::add_worker() {
  const auto id = ++last_worker_;
  workers_[id];
  if (!is_down_)
    perform(machine_->on_worker(id, 1 + std::uint32_t(below(3))));
}

void random_coordinator_job::crash(std::string_view next_effect) {
  meet("coordinators lost", coordinator_process, next_effect);
  is_down_ = true;
  at(1 + below(60), [this] { restart(); });
}

void random_coordinator_job::restart() {
  count("coordinators returned");
  is_down_ = false;
  program_ = saved_;
  // The coordinator can be lost after the program has saved its state, and
  // before it is told.
  kept_.add(forget_records{program_.next});
  machine_.emplace(shards, max_unfinished, ++life_, kept_);
  for (const auto& [id, one] : workers_)
    if (one.is_alive && !is_down_ && (!has_faults_ || below(4) > 0))
      perform(machine_->on_worker(id, 1 + std::uint32_t(below(3))));
}

/// A worker is lost, and may be alive and go on; or links are cut.
void random_coordinator_job::inject() {
  if (chance(35)) {
    std::vector<std::uint64_t> processes{coordinator_process};
    for (std::uint32_t s = 0; s < shards; ++s)
      processes.push_back(shard_process(s));
    for (const auto& [id, one] : workers_)
      if (one.is_alive)
        processes.push_back(id);
    return cut_links(processes);
  }
  if (is_down_)
    return;
  for (const auto& [id, unused] : workers_)
    if (below(2) == 0) {
      auto& one = workers_[id];
      const bool dies = one.is_alive && below(2) == 0;
      meet(dies ? "workers died" : "workers given up", id);
      one.is_alive = one.is_alive && !dies;
      perform(machine_->on_worker_lost(id));
      break;
    }
  if (below(2) == 0) {
    count("workers added");
    add_worker();
  }
  // One that was given up, and is alive, is found again.
  for (const auto& [id, one] : workers_)
    if (one.is_alive && !is_down_ && below(3) == 0) {
      meet("workers found again", id);
      perform(machine_->on_worker(id, 1));
    }
}

void random_coordinator_job::tick() {
  if (!is_down_)
    perform(machine_->on_timeout());
  for (auto& [id, one] : workers_)
    if (one.is_alive)
      for (const auto& [which, x] : one.running_now)
        store_effects(id, which, x);
  while (!is_down_ && machine_->can_schedule() && !program_.tasks.empty()
         && below(3) > 0)
    schedule();
  if (!is_down_ && machine_->is_done() && below(4) == 0)
    save();
  at(timeout, [this] { tick(); });
}

// -- the program --------------------------------------------------------------

void random_coordinator_job::schedule() {
  const auto task = program_.tasks.front();
  program_.tasks.pop_front();
  const auto ordinal = machine_->scheduled();
  program_.task_of[ordinal] = task;
  if (kept_.ends.contains(ordinal)) {
    count("ends found in the records");
    if (ended_task_.at(ordinal) != task)
      fail("the program schedules another task after it has come back");
  }
  if (kept_.errors.contains(ordinal + 1))
    count("errors found in the records");
  const bool waits_for_others = task % 5 == 4;
  perform(machine_->schedule(std::make_shared<const std::uint64_t>(task),
                             waits_for_others));
}

/// The program saves its state. It goes on there if it comes back.
void random_coordinator_job::save() {
  program_.next = machine_->scheduled();
  saved_ = program_;
  perform(machine_->forget_below(program_.next));
}

/// The program does the tasks of cancelled closures again.
void random_coordinator_job::handle_error(std::uint64_t thrower) {
  throwers_.erase(thrower);
  for (const auto ordinal : program_.cancelled)
    program_.tasks.push_back(program_.task_of.at(ordinal));
  program_.cancelled.clear();
  machine_->resume();
}

// -- workers and shards -------------------------------------------------------

void random_coordinator_job::stop_superseded(worker& self) {
  std::erase_if(self.running_now, [&](const auto& x) {
    return self.begun.is_superseded(x.first);
  });
}

/// A worker begins an execution: it reads, and computes the effects.
void random_coordinator_job::execute(std::uint64_t id,
                                     const coordinator::run& received,
                                     std::uint64_t task) {
  auto& self = workers_[id];
  const auto which = received.execution;
  const bool begins = self.begun.begin(received);
  stop_superseded(self);
  if (!begins)
    return;
  self.running_now[which] = running{};
  self.running_now[which].task = task;
  count("executions");
  at(1 + below(40), [this, id, which] { compute(id, which); });
}

void random_coordinator_job::compute(std::uint64_t id, const execution& which) {
  auto& from = workers_[id];
  const auto found = from.running_now.find(which);
  if (!from.is_alive || found == from.running_now.end())
    return;
  auto& x = found->second;
  const bool forward = shards_[0].value > shards_[1].value;
  x.effects = {
    {0, forward ? -1 : 1}, {1, forward ? 1 : -1}, {2, number_of(x.task)}};
  // Some closures only count.
  if (x.task % 3 == 0)
    x.effects = {{2, number_of(x.task)}};
  // One that throws has changed something before.
  x.throws = throwers_.contains(x.task);
  if (x.throws)
    x.effects.erase(2);
  if (x.effects.empty())
    return finish(id, which, {failed{which}});
  for (const auto& [s, unused] : x.effects)
    x.unstored.insert(s);
  store_effects(id, which, x);
}

/// Stores the effects at the shards that have not answered. When all have, the
/// execution has ended.
void random_coordinator_job::store_effects(std::uint64_t id,
                                           const execution& which,
                                           const running& x) {
  for (const auto s : x.unstored)
    deliver(id, shard_process(s), "effects",
            [this, id, which, s, change = x.effects.at(s)] {
              if (!shards_[s].effects.store(
                    which, std::make_shared<const stored_change>(
                             stored_change{which, change})))
                count("effects after the decision");
              deliver(shard_process(s), id, "stored",
                      [this, id, which, s] { on_stored(id, which, s); });
            });
}

void random_coordinator_job::on_stored(std::uint64_t id, const execution& which,
                                       std::uint32_t s) {
  auto& self = workers_[id];
  const auto found = self.running_now.find(which);
  if (!self.is_alive || found == self.running_now.end())
    return;
  found->second.unstored.erase(s);
  if (!found->second.unstored.empty())
    return;
  if (found->second.throws)
    return finish(id, which, {failed{which}});
  ended end{which, {}};
  for (const auto& [shard, unused] : found->second.effects)
    end.shards.push_back(shard);
  finish(id, which, {std::move(end), std::make_shared<const int>(1)});
}

void random_coordinator_job::finish(std::uint64_t id, const execution& which,
                                    answer with) {
  auto& self = workers_[id];
  self.running_now.erase(which);
  if (self.begun.finish(which, std::move(with)))
    send_answer(id, which);
}

void random_coordinator_job::send_answer(std::uint64_t id,
                                         const execution& which) {
  const auto found = workers_[id].begun.answer_to(which);
  if (!found)
    return;
  constexpr std::string_view names[] = {"ended", "failed", "stopped",
                                        "unknown"};
  if (std::holds_alternative<unknown>(found->message))
    count("runs that were lost");
  to_coordinator(id, names[found->message.index()], [this, id, what = *found] {
    return std::visit(
      [&](const auto& message) {
        if constexpr (requires { machine_->on(id, message, what.beside); })
          return machine_->on(id, message, what.beside);
        else
          return machine_->on(id, message);
      },
      what.message);
  });
}

void random_coordinator_job::decide(std::uint32_t s, const decision& what) {
  const auto ordinal = what.execution.ordinal;
  const auto verdict = shards_[s].effects.decide(what);
  if (!verdict.is_possible)
    return fail("a decision on effects that were never stored");
  if (verdict.applied) {
    const auto change =
      std::static_pointer_cast<const stored_change>(*verdict.applied);
    shards_[s].value += change->number;
    const auto end = ends_.find(ordinal);
    if (end == ends_.end() || end->second.execution != change->from)
      fail("effects of an execution take place that has no recorded end");
    if (all_cancelled_.contains(ordinal))
      fail("effects of a cancelled closure take place");
    if (!shards_[s].applied.try_emplace(ordinal, what.execution).second)
      fail("effects of a closure take place twice");
  }
  to_coordinator(shard_process(s), "decided", [this, s, ordinal] {
    return machine_->on(decided{s, ordinal});
  });
}

// -- effects of the coordinator -----------------------------------------------

void random_coordinator_job::perform(const reaction& effects) {
  for (const auto& one : effects) {
    if (is_down_)
      return;
    if (effects_to_crash_ > 0 && --effects_to_crash_ == 0)
      return crash(name(one));
    std::visit([this](const auto& x) { perform_one(x); }, one);
  }
}

void random_coordinator_job::perform_one(const send_run& x) {
  deliver(coordinator_process, x.worker, "run", [this, x] {
    if (workers_[x.worker].is_alive)
      execute(x.worker, x.run,
              *std::static_pointer_cast<const std::uint64_t>(x.closure));
  });
}

void random_coordinator_job::perform_one(const send_cancel& x) {
  deliver(coordinator_process, x.worker, "cancel", [this, x] {
    auto& to = workers_[x.worker];
    if (!to.is_alive)
      return;
    to.begun.on(x.cancel);
    stop_superseded(to);
    to.running_now.erase(x.cancel.execution);
    send_answer(x.worker, x.cancel.execution);
  });
}

void random_coordinator_job::perform_one(const send_query& x) {
  deliver(coordinator_process, x.worker, "query", [this, x] {
    if (workers_[x.worker].is_alive)
      send_answer(x.worker, x.query.execution);
  });
}

void random_coordinator_job::perform_one(const send_decision& x) {
  deliver(coordinator_process, shard_process(x.shard), "decision",
          [this, x] { decide(x.shard, x.decision); });
}

void random_coordinator_job::perform_one(const result_ready& x) {
  if (!program_.done.insert(program_.task_of.at(x.ordinal)).second)
    fail("a task is done twice");
  const auto end = ends_.find(x.ordinal);
  if (end == ends_.end())
    return fail("a result is ready before the end of its closure");
  for (const auto s : end->second.shards) {
    const auto applied = shards_[s].applied.find(x.ordinal);
    if (applied == shards_[s].applied.end()
        || applied->second != end->second.execution)
      fail("a result is ready before the effects have taken place");
  }
}

void random_coordinator_job::perform_one(const cancelled& x) {
  program_.cancelled.insert(x.ordinal);
}

void random_coordinator_job::perform_one(const error_ready& x) {
  count("errors");
  program_.cancelled.insert(x.ordinal);
  const auto thrower = program_.task_of.at(x.ordinal);
  if (!can_throw_.contains(thrower))
    fail("the error of another closure");
  // The error is recorded, so this holds for all lives.
  for (const auto ordinal : program_.cancelled) {
    all_cancelled_.insert(ordinal);
    if (ends_.contains(ordinal))
      fail("a closure that has ended was cancelled");
  }
  at(below(50), [this, thrower, life = life_] {
    if (!is_down_ && life == life_)
      handle_error(thrower);
  });
}

void random_coordinator_job::perform_one(const record_end& x) {
  const auto ordinal = x.end.execution.ordinal;
  if (!ends_.try_emplace(ordinal, x.end).second)
    fail("two ends of a closure are recorded");
  kept_.add(x);
  ended_task_[ordinal] = program_.task_of.at(ordinal);
}

// -- the end ------------------------------------------------------------------

bool random_coordinator_job::is_finished() const {
  return !is_down_ && program_.tasks.empty() && machine_->is_done();
}

void random_coordinator_job::check_end() {
  if (program_.done.size() != tasks_)
    fail("a task is not done");
  if (shards_[0].value + shards_[1].value != total)
    fail("x + y has changed");
  std::int64_t sum = 0;
  for (std::uint64_t task = 0; task < tasks_; ++task)
    sum += number_of(task);
  if (shards_[2].value != sum)
    fail("the sum is not that of all tasks once");
  if (machine_->done_below() != machine_->scheduled())
    fail("a closure is not forgotten");
}

} // namespace troupe::coordinator
