#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/coordinator/executions.hpp"
#include "troupe/strategies/coordinator/state_machine.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

// Closures under random faults, in virtual time: messages are lost, repeated,
// delayed and reordered, workers are lost, go on although they were given up,
// and join. Each closure moves 1 from x on shard 0 to y on shard 1 if x > y,
// else from y to x, and adds 1 to a counter on shard 2. So two executions of a
// closure can take different branches.

namespace troupe::coordinator {

namespace {

constexpr std::uint64_t timeout = 50;
constexpr std::uint32_t shards = 3;
constexpr std::int64_t total = 10; ///< x + y.

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};

class random_closures {
public:
  explicit random_closures(std::uint64_t seed) : random_{seed} {
    loss_percent_ = below(25);
    max_delay_ = 1 + below(30);
    closures_ = 1 + below(40);
    // A closure that throws ends those beside it.
    if (below(3) == 0)
      thrower_ = below(closures_);
    for (std::uint64_t i = 0; i <= below(3); ++i)
      add_worker();
  }

  /// @returns what is wrong. Empty: nothing.
  std::string run() {
    at(timeout, [this] { tick(); });
    for (std::uint64_t i = 0; i < below(6); ++i)
      at(below(300), [this] { inject(); });
    at(1'000, [this] {
      has_faults_ = false;
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

private:
  struct shard {
    closure_effects effects;
    std::int64_t value = 0;
  };
  /// Execution on a worker.
  struct running {
    std::map<std::uint32_t, std::int64_t> effects; ///< By shard.
    std::set<std::uint32_t> unstored;
    bool throws = false, has_computed = false;
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

  void add_worker() {
    const auto id = ++last_worker_;
    workers_[id];
    perform(machine_.on_worker(id, 1 + std::uint32_t(below(3))));
  }

  /// A worker is lost. It may be alive, and go on.
  void inject() {
    for (const auto& [id, one] : workers_)
      if (below(2) == 0) {
        workers_[id].is_alive = below(2) == 0;
        ++losses_;
        perform(machine_.on_worker_lost(id));
        break;
      }
    if (below(2) == 0)
      add_worker();
    // One that was given up, and is alive, is found again.
    for (const auto& [id, one] : workers_)
      if (one.is_alive && below(3) == 0)
        perform(machine_.on_worker(id, 1));
  }

  void tick() {
    perform(machine_.on_timeout());
    for (auto& [id, one] : workers_)
      if (one.is_alive)
        for (auto& [which, x] : one.running_now)
          send_state(id, which, x);
    while (machine_.can_schedule() && machine_.scheduled() < closures_
           && below(3) > 0)
      perform(machine_.schedule(std::make_shared<const int>(0)));
    at(timeout, [this] { tick(); });
  }

  /// A worker begins an execution: it reads, and computes the effects.
  void execute(std::uint64_t id, const coordinator::run& received) {
    auto& self = workers_[id];
    const auto which = received.execution;
    if (!self.begun.begin(received))
      return;
    self.running_now[which] = {};
    ++begun_;
    at(1 + below(40), [this, id, which] {
      auto& from = workers_[id];
      const auto found = from.running_now.find(which);
      if (!from.is_alive || found == from.running_now.end())
        return;
      auto& x = found->second;
      const bool forward = shards_[0].value > shards_[1].value;
      x.has_computed = true;
      x.throws = thrower_ == which.ordinal;
      x.effects = {{0, forward ? -1 : 1}, {1, forward ? 1 : -1}, {2, 1}};
      // Some closures only count.
      if (which.ordinal % 3 == 0)
        x.effects = {{2, 1}};
      for (const auto& [s, unused] : x.effects)
        x.unstored.insert(s);
      send_state(id, which, x);
    });
  }

  /// Sends what has not been answered yet.
  void send_state(std::uint64_t id, const execution& which, const running& x) {
    if (!x.has_computed)
      return;
    if (x.throws)
      return deliver([this, id, which] {
        perform(machine_.on(id, failed{which}, nullptr));
      });
    if (x.unstored.empty()) {
      std::vector<std::uint32_t> with;
      for (const auto& [s, unused] : x.effects)
        with.push_back(s);
      return deliver([this, id, what = ended{which, with}] {
        perform(machine_.on(id, what, std::make_shared<const int>(1)));
      });
    }
    for (const auto s : x.unstored)
      deliver([this, id, which, s, change = x.effects.at(s)] {
        late_effects_ += !shards_[s].effects.store(
          which, std::make_shared<const std::int64_t>(change));
        deliver([this, id, which, s] {
          auto& to = workers_[id];
          const auto found = to.running_now.find(which);
          if (to.is_alive && found != to.running_now.end()
              && found->second.unstored.erase(s) > 0)
            send_state(id, which, found->second);
        });
      });
  }

  void perform(const reaction& effects) {
    for (const auto& one : effects)
      std::visit(overloaded{
                   [&](const send_run& x) {
                     deliver([this, x] {
                       if (workers_[x.worker].is_alive)
                         execute(x.worker, x.run);
                     });
                   },
                   [&](const send_cancel& x) {
                     deliver([this, x] {
                       auto& to = workers_[x.worker];
                       if (!to.is_alive)
                         return;
                       to.begun.on(x.cancel);
                       to.running_now.erase(x.cancel.execution);
                       deliver([this, x] {
                         perform(
                           machine_.on(x.worker, stopped{x.cancel.execution}));
                       });
                     });
                   },
                   [&](const send_decision& x) {
                     deliver([this, x] { decide(x.shard, x.decision); });
                   },
                   [&](const result_ready& x) {
                     if (!ready_.insert(x.ordinal).second)
                       fail("a closure is done twice");
                   },
                   [&](const protocol_error& x) { fail(x.reason); },
                   [](const record_end&) {},
                   [](const record_error&) {},
                   [](const forget_records&) {},
                   [&](const cancelled& x) { cancelled_.insert(x.ordinal); },
                   [&](const error_ready& x) {
                     ++errors_;
                     if (x.ordinal != thrower_)
                       fail("the error of another closure");
                     cancelled_.insert(x.ordinal);
                     at(below(50), [this] {
                       thrower_.reset();
                       machine_.resume();
                     });
                   },
                 },
                 one);
  }

  void decide(std::uint32_t s, const decision& what) {
    const auto verdict = shards_[s].effects.decide(what);
    if (!verdict.is_possible)
      return fail("a decision on effects that were never stored");
    if (verdict.applied)
      shards_[s].value +=
        *std::static_pointer_cast<const std::int64_t>(*verdict.applied);
    deliver([this, s, ordinal = what.execution.ordinal] {
      perform(machine_.on(decided{s, ordinal}));
    });
  }

  bool is_finished() const {
    return machine_.scheduled() == closures_ && machine_.is_done();
  }

  void check_end() {
    if (ready_.size() + cancelled_.size() != closures_)
      fail("a closure is neither done nor cancelled");
    for (const auto x : cancelled_)
      if (ready_.contains(x))
        fail("a closure is done and cancelled");
    if (shards_[0].value + shards_[1].value != total)
      fail("x + y has changed");
    if (shards_[2].value != std::int64_t(ready_.size()))
      fail("a closure does not count once");
    if (machine_.done_below() != closures_)
      fail("a closure is not forgotten");
  }

  std::mt19937_64 random_;
  std::uint64_t now_ = 0, order_ = 0, loss_percent_ = 0, max_delay_ = 1;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::function<void()>>
    events_;
  bool has_faults_ = true;
  std::string problem_;
  std::uint64_t closures_ = 0, last_worker_ = 0;
  std::optional<std::uint64_t> thrower_;
  state_machine machine_{shards, 10};
  std::vector<shard> shards_ = [] {
    std::vector<shard> out(shards);
    out[0].value = total;
    return out;
  }();
  std::map<std::uint64_t, worker> workers_;
  std::set<std::uint64_t> ready_, cancelled_;
  std::uint64_t begun_ = 0, losses_ = 0, errors_ = 0, late_effects_ = 0;
};

TEST(CoordinatorFaults, EachClosureCountsOnce) {
  std::uint64_t begun = 0, losses = 0, errors = 0, late = 0;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    random_closures job{seed};
    const auto problem = job.run();
    ASSERT_EQ(problem, "") << "with seed " << seed;
    begun += job.begun();
    losses += job.losses();
    errors += job.errors();
    late += job.late_effects();
  }
  EXPECT_GT(begun, 30'000u);
  EXPECT_GT(losses, 1'000u);
  EXPECT_GT(errors, 500u);
  EXPECT_GT(late, 100u);
}

} // namespace

} // namespace troupe::coordinator
