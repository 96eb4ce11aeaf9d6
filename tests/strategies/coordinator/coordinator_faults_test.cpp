#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/coordinator/executions.hpp"
#include "troupe/strategies/coordinator/state_machine.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>
#include <string>

// Closures under random faults, in virtual time: messages are lost, repeated,
// delayed and reordered, workers are lost, go on although they were given up,
// and join. The coordinator is lost with the program, between any two effects,
// and both come back: the coordinator with what was recorded, the program with
// the state that it has saved.
//
// The program does a number of tasks, each in a closure that moves 1 from x on
// shard 0 to y on shard 1 if x > y, else from y to x, and adds 1 to a counter
// on shard 2. So two executions of a closure can take different branches. A
// task whose closure was cancelled or has thrown is done again in another
// closure.

namespace troupe::coordinator {

namespace {

constexpr std::uint64_t timeout = 50;
constexpr std::uint32_t shards = 3;
constexpr std::uint64_t max_unfinished = 10;
constexpr std::int64_t total = 10; ///< x + y.

class random_closures {
public:
  explicit random_closures(std::uint64_t seed) : random_{seed} {
    loss_percent_ = below(25);
    max_delay_ = 1 + below(30);
    tasks_ = 1 + below(40);
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

  /// @returns what is wrong. Empty: nothing.
  std::string run() {
    at(timeout, [this] { tick(); });
    for (std::uint64_t i = 0; i < below(6); ++i)
      at(below(300), [this] { inject(); });
    for (std::uint64_t i = below(4); i > 0; --i)
      at(below(600), [this] { effects_to_crash_ = 1 + below(8); });
    at(1'000, [this] {
      has_faults_ = false;
      effects_to_crash_ = 0;
      add_worker();
    });
    while (problem_.empty() && !is_finished() && now_ < 100'000)
      step();
    if (!is_finished())
      fail("the closures do not end");
    check_end();
    return problem_;
  }

  std::uint64_t begun() const { return begun_; }
  std::uint64_t losses() const { return losses_; }
  std::uint64_t errors() const { return errors_; }
  std::uint64_t late_effects() const { return late_effects_; }
  std::uint64_t lost_runs() const { return lost_runs_; }
  std::uint64_t crashes() const { return life_ - 1; }
  std::uint64_t found_ends() const { return found_ends_; }
  std::uint64_t found_errors() const { return found_errors_; }

private:
  struct shard {
    closure_effects effects;
    std::int64_t value = 0;
  };
  /// The program: what it does next is a function of the calls before and of
  /// what they have told it.
  struct program {
    std::deque<std::uint64_t> tasks;                ///< To be scheduled.
    std::map<std::uint64_t, std::uint64_t> task_of; ///< By closure.
    std::set<std::uint64_t> done;                   ///< Tasks.
    std::set<std::uint64_t> cancelled; ///< Closures whose error it awaits.
    std::uint64_t next = 0;            ///< Closure with which it goes on.
  };
  /// Execution on a worker.
  struct running {
    std::uint64_t task = 0;
    std::map<std::uint32_t, std::int64_t> effects; ///< By shard.
    std::set<std::uint32_t> unstored;
  };
  struct worker {
    bool is_alive = true;
    executions begun;
    std::map<execution, running> running_now;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  void fail(const std::string& what) {
    if (problem_.empty())
      problem_ = "at " + std::to_string(now_) + ": " + what;
  }
  void at(std::uint64_t delay, std::function<void()> action) {
    events_.emplace(std::pair{now_ + delay, ++order_}, std::move(action));
  }
  void deliver(const std::function<void()>& action) {
    if (has_faults_ && below(100) < loss_percent_)
      return;
    if (has_faults_ && below(100) < loss_percent_)
      at(1 + below(4 * max_delay_), action);
    at(1 + below(max_delay_), action);
  }
  void step() {
    const auto next = events_.extract(events_.begin());
    now_ = next.key().first;
    next.mapped()();
  }

  /// The coordinator receives this if it is not down, in whatever life.
  void to_coordinator(const std::function<reaction()>& receive) {
    deliver([this, receive] {
      if (!is_down_)
        perform(receive());
    });
  }

  void add_worker() {
    const auto id = ++last_worker_;
    workers_[id];
    if (!is_down_)
      perform(machine_->on_worker(id, 1 + std::uint32_t(below(3))));
  }

  void crash() {
    is_down_ = true;
    at(1 + below(60), [this] { restart(); });
  }

  void restart() {
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

  /// A worker is lost. It may be alive, and go on.
  void inject() {
    if (is_down_)
      return;
    for (const auto& [id, one] : workers_)
      if (below(2) == 0) {
        workers_[id].is_alive = below(2) == 0;
        ++losses_;
        perform(machine_->on_worker_lost(id));
        break;
      }
    if (below(2) == 0)
      add_worker();
    // One that was given up, and is alive, is found again.
    for (const auto& [id, one] : workers_)
      if (one.is_alive && !is_down_ && below(3) == 0)
        perform(machine_->on_worker(id, 1));
  }

  void tick() {
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

  void schedule() {
    const auto task = program_.tasks.front();
    program_.tasks.pop_front();
    const auto ordinal = machine_->scheduled();
    program_.task_of[ordinal] = task;
    if (kept_.ends.contains(ordinal)) {
      ++found_ends_;
      if (ended_task_.at(ordinal) != task)
        fail("the program schedules another task after it has come back");
    }
    found_errors_ += kept_.errors.contains(ordinal + 1);
    perform(machine_->schedule(std::make_shared<const std::uint64_t>(task)));
  }

  /// The program saves its state. It goes on there if it comes back.
  void save() {
    program_.next = machine_->scheduled();
    saved_ = program_;
    perform(machine_->forget_below(program_.next));
  }

  /// The program does the tasks of cancelled closures again.
  void handle_error(std::uint64_t thrower) {
    throwers_.erase(thrower);
    for (const auto ordinal : program_.cancelled)
      program_.tasks.push_back(program_.task_of.at(ordinal));
    program_.cancelled.clear();
    machine_->resume();
  }

  static void stop_superseded(worker& self) {
    std::erase_if(self.running_now, [&](const auto& x) {
      return self.begun.is_superseded(x.first);
    });
  }

  /// A worker begins an execution: it reads, and computes the effects.
  void execute(std::uint64_t id, const coordinator::run& received,
               std::uint64_t task) {
    auto& self = workers_[id];
    const auto which = received.execution;
    const bool begins = self.begun.begin(received);
    stop_superseded(self);
    if (!begins)
      return;
    self.running_now[which] = running{};
    self.running_now[which].task = task;
    ++begun_;
    at(1 + below(40), [this, id, which] {
      auto& from = workers_[id];
      const auto found = from.running_now.find(which);
      if (!from.is_alive || found == from.running_now.end())
        return;
      auto& x = found->second;
      if (throwers_.contains(x.task))
        return finish(id, which, {failed{which}});
      const bool forward = shards_[0].value > shards_[1].value;
      x.effects = {{0, forward ? -1 : 1}, {1, forward ? 1 : -1}, {2, 1}};
      // Some closures only count.
      if (x.task % 3 == 0)
        x.effects = {{2, 1}};
      for (const auto& [s, unused] : x.effects)
        x.unstored.insert(s);
      store_effects(id, which, x);
    });
  }

  /// Stores the effects at the shards that have not answered. When all have,
  /// the execution has ended.
  void store_effects(std::uint64_t id, const execution& which,
                     const running& x) {
    for (const auto s : x.unstored)
      deliver([this, id, which, s, change = x.effects.at(s)] {
        late_effects_ += !shards_[s].effects.store(
          which, std::make_shared<const std::int64_t>(change));
        deliver([this, id, which, s] { on_stored(id, which, s); });
      });
  }

  void on_stored(std::uint64_t id, const execution& which, std::uint32_t s) {
    auto& self = workers_[id];
    const auto found = self.running_now.find(which);
    if (!self.is_alive || found == self.running_now.end())
      return;
    found->second.unstored.erase(s);
    if (!found->second.unstored.empty())
      return;
    ended end{which, {}};
    for (const auto& [shard, unused] : found->second.effects)
      end.shards.push_back(shard);
    finish(id, which, {std::move(end), std::make_shared<const int>(1)});
  }

  void finish(std::uint64_t id, const execution& which, answer with) {
    auto& self = workers_[id];
    self.running_now.erase(which);
    if (self.begun.finish(which, std::move(with)))
      send_answer(id, which);
  }

  void send_answer(std::uint64_t id, const execution& which) {
    const auto found = workers_[id].begun.answer_to(which);
    if (!found)
      return;
    lost_runs_ += std::holds_alternative<unknown>(found->message);
    to_coordinator([this, id, what = *found] {
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

  void perform(const reaction& effects) {
    for (const auto& one : effects) {
      if (is_down_)
        return;
      if (effects_to_crash_ > 0 && --effects_to_crash_ == 0)
        return crash();
      std::visit([this](const auto& x) { perform_one(x); }, one);
    }
  }

  void perform_one(const send_run& x) {
    deliver([this, x] {
      if (workers_[x.worker].is_alive)
        execute(x.worker, x.run,
                *std::static_pointer_cast<const std::uint64_t>(x.closure));
    });
  }
  void perform_one(const send_cancel& x) {
    deliver([this, x] {
      auto& to = workers_[x.worker];
      if (!to.is_alive)
        return;
      to.begun.on(x.cancel);
      stop_superseded(to);
      to.running_now.erase(x.cancel.execution);
      send_answer(x.worker, x.cancel.execution);
    });
  }
  void perform_one(const send_query& x) {
    deliver([this, x] {
      if (workers_[x.worker].is_alive)
        send_answer(x.worker, x.query.execution);
    });
  }
  void perform_one(const send_decision& x) {
    deliver([this, x] { decide(x.shard, x.decision); });
  }
  void perform_one(const result_ready& x) {
    if (!program_.done.insert(program_.task_of.at(x.ordinal)).second)
      fail("a task is done twice");
  }
  void perform_one(const protocol_error& x) { fail(x.reason); }
  void perform_one(const cancelled& x) { program_.cancelled.insert(x.ordinal); }
  void perform_one(const error_ready& x) {
    ++errors_;
    program_.cancelled.insert(x.ordinal);
    const auto thrower = program_.task_of.at(x.ordinal);
    if (!can_throw_.contains(thrower))
      fail("the error of another closure");
    at(below(50), [this, thrower, life = life_] {
      if (!is_down_ && life == life_)
        handle_error(thrower);
    });
  }
  void perform_one(const record_end& x) {
    const auto ordinal = x.end.execution.ordinal;
    if (kept_.ends.contains(ordinal))
      fail("two ends of a closure are recorded");
    kept_.add(x);
    ended_task_[ordinal] = program_.task_of.at(ordinal);
  }
  void perform_one(const record_error& x) { kept_.add(x); }
  void perform_one(const forget_records& x) { kept_.add(x); }

  void decide(std::uint32_t s, const decision& what) {
    const auto verdict = shards_[s].effects.decide(what);
    if (!verdict.is_possible)
      return fail("a decision on effects that were never stored");
    if (verdict.applied)
      shards_[s].value +=
        *std::static_pointer_cast<const std::int64_t>(*verdict.applied);
    to_coordinator([this, s, ordinal = what.execution.ordinal] {
      return machine_->on(decided{s, ordinal});
    });
  }

  bool is_finished() const {
    return !is_down_ && program_.tasks.empty() && machine_->is_done();
  }

  void check_end() {
    if (program_.done.size() != tasks_)
      fail("a task is not done");
    if (shards_[0].value + shards_[1].value != total)
      fail("x + y has changed");
    if (shards_[2].value != std::int64_t(tasks_))
      fail("a task does not count once");
    if (machine_->done_below() != machine_->scheduled())
      fail("a closure is not forgotten");
  }

  std::mt19937_64 random_;
  std::uint64_t now_ = 0, order_ = 0, loss_percent_ = 0, max_delay_ = 1;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::function<void()>>
    events_;
  bool has_faults_ = true;
  std::string problem_;
  std::uint64_t tasks_ = 0, last_worker_ = 0;
  std::set<std::uint64_t> throwers_;  ///< Tasks that throw until it is handled.
  std::set<std::uint64_t> can_throw_; ///< They, and those that threw before.

  // The coordinator and its program.
  std::optional<state_machine> machine_;
  program program_;
  std::uint64_t life_ = 1;
  bool is_down_ = false;
  /// Number of the effect before which the coordinator is lost. Zero: none.
  std::uint64_t effects_to_crash_ = 0;

  // What survives it.
  records kept_;
  program saved_;
  std::map<std::uint64_t, std::uint64_t> ended_task_; ///< By closure.

  std::vector<shard> shards_ = [] {
    std::vector<shard> out(shards);
    out[0].value = total;
    return out;
  }();
  std::map<std::uint64_t, worker> workers_;
  std::uint64_t begun_ = 0, losses_ = 0, errors_ = 0, late_effects_ = 0;
  std::uint64_t lost_runs_ = 0, found_ends_ = 0, found_errors_ = 0;
};

TEST(CoordinatorFaults, EachTaskCountsOnce) {
  std::uint64_t begun = 0, losses = 0, errors = 0, late = 0;
  std::uint64_t lost_runs = 0, crashes = 0, found_ends = 0, found_errors = 0;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    random_closures job{seed};
    const auto problem = job.run();
    ASSERT_EQ(problem, "") << "with seed " << seed;
    begun += job.begun();
    losses += job.losses();
    errors += job.errors();
    late += job.late_effects();
    lost_runs += job.lost_runs();
    crashes += job.crashes();
    found_ends += job.found_ends();
    found_errors += job.found_errors();
  }
  EXPECT_GT(begun, 30'000u);
  EXPECT_GT(losses, 1'000u);
  EXPECT_GT(errors, 500u);
  EXPECT_GT(late, 100u);
  EXPECT_GT(lost_runs, 1'000u);
  EXPECT_GT(crashes, 2'000u);
  EXPECT_GT(found_ends, 5'000u);
  EXPECT_GT(found_errors, 300u);
}

} // namespace

} // namespace troupe::coordinator
