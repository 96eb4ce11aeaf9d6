#include "troupe/strategies/membership/view_change.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>

// Runs view changes under random faults. Messages are lost, delayed, repeated
// and reordered, and connections are cut. Processes die, leave, join, suspect
// each other without reason, and want to renew the view.

namespace troupe::view_change {

namespace {

class random_job {
public:
  explicit random_job(std::uint64_t seed) : random_{seed} {
    const auto count = 1 + below(6);
    view first{1, {}};
    for (std::uint32_t t = 0; t < count; ++t)
      first.members.push_back(
        {t, new_incarnation(), "127.0.0.1", 1, {2 * t, 2 * t + 1}, 2});
    for (const auto& x : first.members)
      add({x.task, x.incarnation},
          std::make_unique<state_machine>(first, x.incarnation));
    replicas_ = 2 * count;
  }

  /// @returns what is wrong. Empty: nothing.
  std::string run() {
    const auto faults = below(14);
    std::uint64_t now = 0;
    for (std::uint32_t i = 0; i < faults && problem_.empty(); ++i) {
      inject();
      deliver_until(now += below(40));
    }
    heal();
    deliver_until(now + 100'000);
    check_end();
    return problem_;
  }

  /// A member proposes over slow connections. Meanwhile others believe that
  /// they cannot reach it, so that a second one proposes another view.
  /// @returns what is wrong. Empty: nothing.
  std::string run_two_proposers() {
    auto& slow = nodes_.begin()->second;
    slow.slow = true;
    perform(slow, slow.machine->on_renewal_wanted());
    for (auto& [incarnation, x] : nodes_)
      if (x.id != slow.id)
        at(below(200), [this, &x = x, lost = slow.id.incarnation] {
          if (is_active(x))
            perform(x, x.machine->on_unreachable(lost));
        });
    deliver_until(1'000);
    heal();
    deliver_until(now_ + 100'000);
    check_end();
    return problem_;
  }

  /// True if a view is known without the process that began the first one.
  bool excludes_first() const {
    const auto& first = nodes_.begin()->second;
    return std::ranges::any_of(nodes_, [&](const auto& one) {
      return std::ranges::any_of(one.second.views, [&](const auto& x) {
        return !x.second.contains(first.id.task, first.id.incarnation);
      });
    });
  }

  std::uint64_t views() const { return views_.size(); }
  std::uint64_t deaths() const { return deaths_; }
  std::uint64_t removals() const { return removals_; }
  std::uint64_t joins() const { return joins_; }
  std::uint64_t renewals() const { return renewals_; }

private:
  struct node {
    process_id id;
    std::unique_ptr<state_machine> machine; ///< Null: it has not joined.
    job_position position{1, 0};
    bool dead = false, cut = false, slow = false, stopped = false,
         leaving = false;
    std::uint64_t timer = 0;    ///< Number of the valid timer.
    std::uint64_t stops = 0;    ///< Number of stops so far.
    std::uint64_t unwanted = 0; ///< View that it last wanted to renew.
    std::map<std::uint64_t, view> views{}; ///< That it has heard of, by id.
  };
  using event = std::function<void()>;

  std::uint32_t below(std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>{0, bound - 1}(random_);
  }
  std::uint64_t new_incarnation() { return ++last_incarnation_; }
  void fail(const std::string& what) {
    if (problem_.empty())
      problem_ = what;
  }

  void add(process_id id, std::unique_ptr<state_machine> machine) {
    // A process that joins has made no step.
    const job_position made{1, machine ? below(3) : 0};
    nodes_[id.incarnation] = node{id, std::move(machine), made};
  }

  /// Returns a process that takes part. Null: there is none.
  node* any_member() {
    std::vector<node*> all;
    for (auto& [incarnation, x] : nodes_)
      if (is_active(x))
        all.push_back(&x);
    return all.empty() ? nullptr : all[below(std::uint32_t(all.size()))];
  }
  static bool is_active(const node& x) {
    return x.machine && !x.dead && !x.machine->is_removed();
  }

  void at(std::uint64_t delay, event what) {
    events_.emplace(now_ + delay, std::move(what));
  }
  void deliver_until(std::uint64_t end) {
    for (int n = 0; !events_.empty() && events_.begin()->first <= end; ++n) {
      if (n > 100'000)
        return fail("the messages do not end");
      now_ = events_.begin()->first;
      const auto what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      what();
    }
    now_ = end;
  }

  // -- faults -----------------------------------------------------------------

  void inject() {
    auto* const victim = any_member();
    auto* const other = any_member();
    if (!victim)
      return;
    switch (below(9)) {
      case 0: // a death, which others see as the end of a connection
        victim->dead = true;
        ++deaths_;
        for (auto& [incarnation, x] : nodes_)
          if (is_active(x) && below(3) > 0)
            report(x, victim->id, below(2) == 0);
        break;
      case 1: // a cut process, which wakes up later
        victim->cut = true;
        for (auto& [incarnation, x] : nodes_)
          if (is_active(x) && x.id != victim->id && below(3) > 0)
            report(x, victim->id, false);
        break;
      case 2: // a suspicion without reason
        if (other->id != victim->id)
          report(*other, victim->id, false);
        break;
      case 3:
        victim->leaving = true;
        perform(*victim, victim->machine->leave());
        break;
      case 4:
        join(below(7));
        break;
      case 5:
        loses_messages_ = true;
        break;
      case 6:
        victim->cut = false;
        break;
      case 7:
        victim->unwanted = victim->machine->current().view_id;
        perform(*victim, victim->machine->on_renewal_wanted());
        break;
      case 8: // a process becomes slow, or fast again
        victim->slow = !victim->slow;
        for (auto& [incarnation, x] : nodes_)
          if (is_active(x) && x.id != victim->id && below(2) == 0)
            report(x, victim->id, false);
        break;
    }
  }

  void report(node& observer, process_id lost, bool is_death) {
    at(below(20), [this, &observer, lost, is_death] {
      if (!is_active(observer))
        return;
      const bool was_silent = !is_death && below(2) == 0;
      perform(observer, is_death ? observer.machine->on_dead(lost.incarnation)
                                 : observer.machine->on_unreachable(
                                   lost.incarnation, was_silent));
    });
  }

  void join(std::uint32_t task) {
    // A launcher starts a task again only if its process has ended.
    for (const auto& [incarnation, x] : nodes_)
      if (x.id.task == task && !x.dead
          && !(x.machine && x.machine->is_removed()))
        return;
    const process_id id{task, new_incarnation()};
    add(id, nullptr);
    for (std::uint64_t round = 0; round < 3; ++round)
      at(50 * round, [this, id] { ask_all(id); });
  }
  /// A candidate that has not joined asks the processes that take part.
  void ask_all(process_id id) {
    if (nodes_.at(id.incarnation).machine)
      return;
    for (auto& [incarnation, x] : nodes_)
      at(below(20), [this, &to = x, id] {
        if (is_active(to) && !to.cut && !nodes_.at(id.incarnation).dead)
          perform(to, to.machine->on_join(candidate(id)));
      });
  }
  static member candidate(process_id id) {
    return {id.task, id.incarnation, "127.0.0.1", 1, {}, 2};
  }

  /// Ends all faults. A witness reports which processes live; each process gets
  /// the report at another time.
  void heal() {
    loses_messages_ = false;
    for (auto& [incarnation, x] : nodes_)
      x.cut = x.slow = false;
    for (std::uint64_t round = 0; round < 5; ++round)
      at(1 + 1'000 * round, [this] { report_survivors(); });
  }

  void report_survivors() {
    std::vector<process_id> living;
    for (auto& [incarnation, x] : nodes_) {
      // The witness has ended processes that were removed or have not joined.
      x.dead |= !x.machine || x.machine->is_removed();
      if (!x.dead)
        living.push_back(x.id);
    }
    for (auto& [incarnation, one] : nodes_)
      at(below(100), [this, &node = one, living] {
        for (auto& [other, x] : nodes_)
          if (is_active(node) && other != node.id.incarnation && !x.dead)
            perform(node, node.machine->on_reachable(other));
        if (is_active(node))
          perform(node, node.machine->on_survivors(living));
      });
  }

  // -- the host of the machines -----------------------------------------------

  void perform(node& from, const reaction& effects) {
    for (const auto& one : effects)
      std::visit([&](const auto& x) { perform_one(from, x); }, one);
  }

  void perform_one(node& from, const send& x) {
    const auto copies = loses_messages_ ? below(3) : 1;
    for (std::uint32_t i = 0; i < copies; ++i)
      at(1 + below(longest_delay(from.id, x.receiver)),
         [this, sender = from.id, x] {
           const auto found = nodes_.find(x.receiver.incarnation);
           if (found == nodes_.end() || found->second.dead || found->second.cut
               || nodes_.at(sender.incarnation).cut)
             return;
           receive(found->second, sender, x.message);
         });
  }

  /// Bound of the time that a message takes.
  std::uint32_t longest_delay(process_id sender, process_id receiver) {
    const auto to = nodes_.find(receiver.incarnation);
    const bool slow = nodes_.at(sender.incarnation).slow
                      || (to != nodes_.end() && to->second.slow);
    return slow ? 100 : 10;
  }

  void receive(node& to, process_id sender, const message& content) {
    if (to.machine)
      return perform(to, to.machine->on(sender, content));
    if (content.kind != message_kind::install)
      return;
    const auto& decision = content.proposals.front();
    if (!decision.proposal.next.contains(to.id.task, to.id.incarnation))
      return;
    to.machine = std::make_unique<state_machine>(decision, to.id.incarnation);
    ++joins_;
    perform_one(to, installed{decision.proposal});
  }

  void perform_one(node& from, const stop&) {
    from.stopped = true;
    at(below(5), [this, &from, number = ++from.stops] {
      if (is_active(from) && from.stopped && number == from.stops)
        perform(from, from.machine->on_stopped(from.position));
    });
  }

  void perform_one(node& from, const set_timer& x) {
    at(50 * x.intervals, [this, &from, number = ++from.timer] {
      if (is_active(from) && number == from.timer)
        perform(from, from.machine->on_timeout());
    });
  }

  void perform_one(node& from, const installed& x) {
    if (x.decision.next.view_id == from.unwanted + 1
        && has_members_of(from, from.unwanted, x.decision.next))
      ++renewals_;
    check_view(from, x.decision.next);
    if (!x.decision.next.contains(from.id.task, from.id.incarnation))
      fail("a process installs a view without itself");
    if (x.decision.resume < from.position)
      fail("a step whose update has begun is undone");
    from.position = x.decision.resume;
    from.position.step += below(3);
    from.stopped = false;
    if (from.leaving) // the request is void in the new view
      at(below(20), [this, &from] {
        if (is_active(from))
          perform(from, from.machine->leave());
      });
  }

  void perform_one(node& from, const removed& x) {
    ++removals_;
    check_view(from, x.next);
  }
  void perform_one(node&, const no_majority&) {}
  void perform_one(node&, const state_lost&) { state_lost_ = true; }

  static bool has_members_of(const node& x, std::uint64_t view_id,
                             const view& next) {
    const auto before = x.views.find(view_id);
    return before != x.views.end() && before->second.members == next.members;
  }

  // -- oracles ----------------------------------------------------------------

  void check_view(node& from, const view& next) {
    from.views.insert_or_assign(next.view_id, next);
    views_.insert(next.view_id);
    for (auto& [incarnation, x] : nodes_) {
      const auto same = x.views.find(next.view_id);
      if (!x.dead && same != x.views.end() && same->second != next)
        fail("two views have the number " + std::to_string(next.view_id));
    }
    std::vector<std::uint32_t> ids;
    for (const auto& one : next.members)
      ids.insert(ids.end(), one.replicas.begin(), one.replicas.end());
    std::ranges::sort(ids);
    for (std::uint32_t i = 0; i < ids.size(); ++i)
      if (ids[i] != i)
        fail("a replica has no place or two");
    if (ids.size() != replicas_)
      fail("replicas are missing");
  }

  /// All that live and have not been removed are members of one view, and go
  /// on.
  void check_end() {
    if (state_lost_)
      return fail("the state is lost though a process has it");
    const bool one_stays = std::ranges::any_of(nodes_, [](const auto& x) {
      return is_active(x.second) && !x.second.leaving;
    });
    const view* last = nullptr;
    for (auto& [incarnation, x] : nodes_) {
      if (!is_active(x))
        continue;
      if (last && x.machine->current() != *last)
        fail("processes have different views in the end");
      last = &x.machine->current();
      if (x.stopped)
        fail("a process stays stopped");
      if (x.leaving && one_stays)
        fail("a process cannot leave");
      if (x.machine->current().view_id == x.unwanted)
        fail("a view is not renewed");
    }
    for (const auto& x : last ? last->members : std::vector<member>{})
      if (!is_active(nodes_.at(x.incarnation)))
        fail("a member of the last view is not alive");
  }

  std::mt19937_64 random_;
  std::map<std::uint64_t, node> nodes_; ///< By incarnation; never erased.
  std::multimap<std::uint64_t, event> events_; ///< By time.
  std::uint64_t now_ = 0, last_incarnation_ = 0;
  std::uint32_t replicas_ = 0;
  bool loses_messages_ = false, state_lost_ = false;
  std::set<std::uint64_t> views_;
  std::uint64_t deaths_ = 0, removals_ = 0, joins_ = 0, renewals_ = 0;
  std::string problem_;
};

TEST(ViewChangeFaults, AllThatLiveAgreeOnOneViewAfterAnother) {
  const auto seeds = test::seeds_of(20'000);
  std::uint64_t views = 0, deaths = 0, removals = 0, joins = 0, renewals = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    random_job job{seed};
    ASSERT_EQ(job.run(), "") << "seed " << seed;
    views += job.views();
    deaths += job.deaths();
    removals += job.removals();
    joins += job.joins();
    renewals += job.renewals();
  }
  // The faults have happened.
  EXPECT_GT(views, seeds);
  EXPECT_GT(deaths, seeds / 4);
  EXPECT_GT(removals, seeds / 4);
  EXPECT_GT(joins, seeds / 10);
  EXPECT_GT(renewals, seeds / 16);
}

TEST(ViewChangeFaults, OneOfTwoProposersDecides) {
  const auto seeds = test::seeds_of(20'000);
  std::uint64_t excluded = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    random_job job{seed};
    ASSERT_EQ(job.run_two_proposers(), "") << "seed " << seed;
    excluded += job.excludes_first();
  }
  // Each of the two has decided in some jobs.
  EXPECT_GT(excluded, seeds / 10);
  EXPECT_LT(excluded, seeds - seeds / 10);
}

} // namespace

} // namespace troupe::view_change
