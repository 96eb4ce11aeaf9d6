#include "troupe/actors/membership/actor/spawn_membership.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/simulation/simulated_network.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

// Runs the membership actors of a job over a simulated network. Processes come
// late, die, are cut off, restart and leave, and outsiders connect.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::uint32_t tasks = 4;
constexpr std::uint32_t outsider = tasks; ///< Process that is no member.
constexpr milliseconds start_timeout{3000}, horizon{30'000};

const auto membership_seeds = test::seeds_of(1000);

/// One life of a process.
struct process_life {
  enum class fate { alive, dead, isolated, left } fate = fate::alive;
  membership::join_request request;
  std::shared_ptr<peer_table> table;
  membership_actor actor;
  std::vector<membership::view> views; ///< In the order in which it took them.
  bool opened_lanes = false;
  caf::timespan ended{}; ///< Time at which it died or was isolated.

  bool started() const { return table->started; }
  bool failed() const { return table->failed.has_value(); }
};

/// What has happened, over all seeds.
struct tally {
  int began = 0, failed = 0, rejected = 0;
  int later_views = 0; ///< Processes that have taken a second view.
  int successors = 0;  ///< Of these, processes whose last view has no leader.
  int late = 0, deaths_before_view = 0, deaths_in_start = 0, deaths_later = 0,
      restarts = 0, leaves = 0, aborts = 0;
};

class simulated_job {
public:
  explicit simulated_job(std::uint64_t seed) : rng_{seed}, sim_{seed} {
    for (std::uint32_t task = 0; task < tasks; ++task)
      names_.push_back("process " + std::to_string(task));
    for (std::uint32_t task = 0; task < tasks; ++task)
      plan(task);
    if (happens(0.5))
      at(between(0ms, 4000ms), [this] { add_outsider(); });
  }

  ~simulated_job() {
    for (const auto& x : lives_)
      caf::anon_send_exit(x->actor, caf::exit_reason::kill);
  }

  void run() {
    while (sim_.elapsed() < horizon) {
      while (!events_.empty() && events_.begin()->first <= sim_.elapsed()) {
        const auto event = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        event();
      }
      if (!sim_.advance_once())
        sim_.advance(1ms, 1ms);
      for (std::size_t i = 0; i < lives_.size(); ++i)
        watch(*lives_[i]);
    }
  }

  /// Checks what must hold whatever has happened.
  void check(tally& sum) const {
    const auto& leader = *lives_of(0).at(0);
    std::map<std::uint64_t, membership::view> agreed;
    for (const auto& life : lives_) {
      check_views(*life, agreed);
      EXPECT_TRUE(life->fate != process_life::fate::alive || life->started()
                  || life->failed())
        << "a process waits forever";
      EXPECT_FALSE(life->started() && life->failed());
      EXPECT_TRUE(life->fate != process_life::fate::left
                  || life->table->may_close)
        << "a process that leaves waits forever";
      EXPECT_TRUE(
        !life->failed()
        || !describe(*life->table->failed, {.names = names_}).empty());
    }
    if (std::ranges::any_of(lives_, [](const auto& x) { return x->started(); }))
      check_start(leader);
    if (leader.fate != process_life::fate::left)
      check_last_view(); // otherwise the job has ended
    EXPECT_TRUE(!undisturbed_ || leader.started());
    (leader.started() ? sum.began : sum.failed) += 1;
    for (const auto& x : lives_) {
      sum.later_views += x->views.size() > 1;
      sum.successors += x->views.size() > 1 && !x->views.back().find(0);
    }
    for (const auto& x : outsiders_) {
      ASSERT_TRUE(x->failed());
      EXPECT_TRUE(leader.fate != process_life::fate::alive
                  || x->table->failed->code == ec::refused)
        << describe(*x->table->failed, {.names = names_});
      sum.rejected += x->table->failed->code == ec::refused;
    }
    sum.late += fired_.late;
    sum.deaths_before_view += fired_.deaths_before_view;
    sum.deaths_in_start += fired_.deaths_in_start;
    sum.deaths_later += fired_.deaths_later;
    sum.restarts += fired_.restarts;
    sum.leaves += fired_.leaves;
    sum.aborts += fired_.aborts;
  }

private:
  // -- checks -----------------------------------------------------------------

  static void check_views(const process_life& life,
                          std::map<std::uint64_t, membership::view>& agreed) {
    std::uint64_t last = 0;
    for (const auto& x : life.views) {
      EXPECT_GT(x.view_id, last) << "view ids count";
      last = x.view_id;
      EXPECT_EQ(x, agreed.try_emplace(x.view_id, x).first->second)
        << "two processes have different views";
      EXPECT_TRUE(x.contains(life.request.task, life.request.incarnation));
    }
  }

  /// A job starts only if every process of its first view has opened its lanes.
  void check_start(const process_life& leader) const {
    ASSERT_FALSE(leader.views.empty());
    const auto& first = leader.views[0];
    EXPECT_EQ(first.view_id, 1u);
    ASSERT_EQ(first.members.size(), tasks);
    for (const auto& member : first.members) {
      const auto* life = find(member.incarnation);
      ASSERT_TRUE(life) << "an outsider is a member";
      EXPECT_EQ(life->request.task, member.task);
      EXPECT_TRUE(life->opened_lanes);
    }
  }

  /// The processes that remain have the same view, without those that have
  /// ended. Exceptions are views of which half of the members or more have
  /// ended, or all that host replicas.
  void check_last_view() const {
    for (const auto& life : lives_) {
      if (!remains(*life))
        continue;
      const auto& last = life->views.back();
      std::size_t alive = 0, hosts = 0;
      for (const auto& x : last.members)
        if (remains(*find(x.incarnation))) {
          ++alive;
          hosts += x.capacity > 0;
        }
      if (2 * alive <= last.members.size() || hosts == 0)
        continue;
      for (const auto& x : last.members) {
        const auto& other = *find(x.incarnation);
        ASSERT_TRUE(remains(other))
          << names_[x.task] << " has fate " << int(other.fate) << " at "
          << other.ended.count() / 1'000'000 << " ms";
        EXPECT_EQ(other.views.back(), last);
      }
    }
  }
  static bool remains(const process_life& life) {
    return life.fate == process_life::fate::alive && life.started();
  }

  const process_life* find(std::uint64_t incarnation) const {
    for (const auto& x : lives_)
      if (x->request.incarnation == incarnation)
        return x.get();
    return nullptr;
  }

  std::vector<const process_life*> lives_of(std::uint32_t task) const {
    std::vector<const process_life*> out;
    for (const auto& x : lives_)
      if (x->request.task == task)
        out.push_back(x.get());
    return out;
  }

  // -- the plan ---------------------------------------------------------------

  void plan(std::uint32_t task) {
    const bool late = happens(0.3);
    const auto begin = late ? between(100ms, 2000ms) : between(0ms, 50ms);
    if (task > 0 && happens(0.03)) {
      undisturbed_ = false;
      return; // it never comes
    }
    at(begin, [this, task, late] {
      fired_.late += late;
      add(task);
    });
    if (happens(task == 0 ? 0.1 : 0.3)) {
      undisturbed_ = false;
      const auto death = begin + between(1ms, happens(0.6) ? 300ms : 5000ms);
      at(death, [this, task] { end(task); });
      if (task > 0 && happens(0.7))
        at(death + between(5ms, 1500ms), [this, task] {
          ++fired_.restarts;
          net_.restart(task);
          add(task);
        });
    } else if (happens(0.2)) {
      undisturbed_ = false;
      at(between(0ms, 8000ms), [this, task] { leave(task); });
    }
  }

  void end(std::uint32_t task) {
    auto& life = *current_[task];
    if (life.fate != process_life::fate::alive)
      return;
    const bool killed = happens(0.6);
    life.fate =
      killed ? process_life::fate::dead : process_life::fate::isolated;
    life.ended = sim_.elapsed();
    net_.disconnect(task, killed ? net::close_reason::closed
                                 : net::close_reason::timed_out);
    if (killed)
      caf::anon_send_exit(life.actor, caf::exit_reason::kill);
    (life.started()       ? fired_.deaths_later
     : life.views.empty() ? fired_.deaths_before_view
                          : fired_.deaths_in_start) += 1;
  }

  void leave(std::uint32_t task) {
    if (!current_.contains(task)
        || current_[task]->fate != process_life::fate::alive
        || !current_[task]->started())
      return;
    current_[task]->fate = process_life::fate::left;
    ++fired_.leaves;
    tell(*current_[task], membership_event::leave{});
  }

  // -- processes --------------------------------------------------------------

  void add(std::uint32_t task) {
    lives_.push_back(make(task, task, {}));
    current_[task] = lives_.back();
  }

  /// A process asks for a task that is taken, unknown or not configured so.
  void add_outsider() {
    const auto what = rng_() % 3;
    if (!current_.contains(0))
      return;
    if (what == 0 && lives_of(1).empty())
      return;
    membership::process_config config;
    if (what == 1)
      config.version = "another";
    outsiders_.push_back(make(outsider, what == 2 ? tasks + 3 : 1, config));
    if (what != 0)
      return;
    // the task may have become free: then the outsider is a member
    lives_.push_back(outsiders_.back());
    outsiders_.pop_back();
    undisturbed_ = false;
  }

  std::shared_ptr<process_life> make(std::uint32_t process, std::uint32_t task,
                                     const membership::process_config& config) {
    auto life = std::make_shared<process_life>();
    life->request = {task, rng_(), "host", 1, task == 2 ? 0u : 1u, config};
    life->table = std::make_shared<peer_table>(tasks);
    membership_options settings;
    auto& named = settings.processes;
    named.names = names_;
    named.job = "job";
    named.self = task;
    if (task >= tasks)
      named.names.resize(task + 1, "outsider");
    settings.self = life->request;
    settings.start_timeout = start_timeout;
    settings.shutdown_timeout = 1000ms;
    settings.peers = life->table;
    settings.log = [table = life->table](net::severity,
                                         const std::string& line) {
      EXPECT_TRUE(table->view.view_id == 0 || line.find("waits") == line.npos)
        << line;
    };
    const auto hello =
      make_join_hello("job", "process", "control", life->request);
    settings.dial_leader =
      [this, process,
       hello](milliseconds timeout,
              std::function<void(net::endpoint::dial_result &&)> on_done) {
        net_.dial(process, 0, hello, timeout, std::move(on_done));
      };
    settings.dial_peer = [this, process, hello](
                           const membership::member& peer, milliseconds timeout,
                           membership_options::dial_callback on_done) {
      net_.dial(process, peer.task, hello, timeout, std::move(on_done));
    };
    const auto actor = spawn_membership(sim_.sys, settings);
    sim_.own(actor);
    life->actor = actor;
    if (process != outsider)
      net_.listen(
        process, hello,
        [target = life->actor](const net::hello& from,
                               std::shared_ptr<net::connection> connection) {
          membership::join_request request;
          ASSERT_FALSE(read_join_hello(from, request));
          caf::anon_send(
            target, membership_event::accepted{std::move(connection), request});
        });
    return life;
  }

  template <class Event>
  static void tell(const process_life& life, const Event& event) {
    caf::anon_send(life.actor, event);
  }

  /// Notes the views of a process. It opens its lanes some time after the first
  /// one.
  void watch(process_life& life) {
    const auto& view = life.table->view;
    if (view.view_id == 0
        || (!life.views.empty() && life.views.back().view_id == view.view_id))
      return;
    life.views.push_back(view);
    if (life.views.size() > 1)
      return;
    at(sim_.elapsed() + between(0ms, 200ms), [this, &life] {
      if (life.fate == process_life::fate::dead || life.failed())
        return;
      if (happens(0.02)) {
        undisturbed_ = false;
        ++fired_.aborts;
        return tell(life, membership_event::aborted{ec::stalled, "no lanes"});
      }
      life.opened_lanes = true;
      tell(life, membership_event::lanes_open{});
    });
  }

  // -- random choices ---------------------------------------------------------

  bool happens(double probability) {
    return double(rng_() % 1'000'000) < probability * 1e6;
  }
  caf::timespan between(milliseconds low, milliseconds high) {
    return low
           + std::chrono::microseconds{
             rng_() % std::uint64_t(1000 * (high - low).count())};
  }
  void at(caf::timespan when, std::function<void()> event) {
    events_.emplace(when, std::move(event));
    // a timer, so that the clock stops at this time
    net_.notify_later(outsider,
                      std::max(when - sim_.elapsed(), caf::timespan{0}));
  }

  std::mt19937_64 rng_;
  simulator sim_;
  simulated_network net_{sim_, tasks + 1, {}};
  std::vector<std::string> names_;
  std::multimap<caf::timespan, std::function<void()>> events_;
  std::vector<std::shared_ptr<process_life>> lives_, outsiders_;
  std::map<std::uint32_t, std::shared_ptr<process_life>> current_; ///< By task.
  tally fired_;
  bool undisturbed_ = true; ///< Nothing can keep the job from its start.
};

} // namespace

TEST(SimulatedMembership, AgreesWhateverComesLateDiesOrLeaves) {
  tally sum;
  for (std::uint64_t seed = 1; seed <= membership_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulated_job job{seed};
    job.run();
    job.check(sum);
    if (HasFailure())
      return;
  }
  for (const auto count :
       {sum.began, sum.failed, sum.rejected, sum.later_views, sum.successors,
        sum.late, sum.deaths_before_view, sum.deaths_in_start, sum.deaths_later,
        sum.restarts, sum.leaves, sum.aborts})
    EXPECT_GT(count, 0) << "something never happened";
  std::printf("%d began, %d failed, %d outsiders rejected, %d processes with "
              "later views, "
              "%d without the leader; "
              "%d late, deaths %d before the view, %d in the start, %d later, "
              "%d restarts, %d leaves\n",
              sum.began, sum.failed, sum.rejected, sum.later_views,
              sum.successors, sum.late, sum.deaths_before_view,
              sum.deaths_in_start, sum.deaths_later, sum.restarts, sum.leaves);
}

} // namespace troupe::simulation
