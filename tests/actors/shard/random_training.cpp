#include "troupe/tests/actors/shard/random_training.hpp"

#include "troupe/actors/shard/copy_supervisor.hpp"
#include "troupe/actors/shard/shard_host.hpp"
#include "troupe/actors/shard/shard_router.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/actors/shard/row_tensors.hpp"

#include <caf/actor_cast.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using namespace parameter_server;
using test::floats;

constexpr std::uint32_t shards = 2;

/// What a replica contributes to a part. Sums of these are exact.
float gradient_of(std::uint32_t replica, std::uint64_t step,
                  std::uint32_t shard) {
  return float(1 + (replica * 31 + step * 7 + shard * 3) % 50);
}

/// A training with the actors of servers, workers and chiefs in the simulator,
/// while these are lost and others join. Replicas push sums whose parts are
/// exact in any order. The protocol by itself, with lost messages, is in
/// random_server_job.hpp. The oracles:
///
///   exactly once  the parameters are the sum of all contributions, or in
///                 synchronous steps of those that one chief has chosen
///   one version   all replicas that read a version of a synchronous part read
///                 the same, and all shards have applied the same choice
///   progress      the training ends when there are no faults any more
class random_training : public checked_job {
public:
  explicit random_training(std::uint64_t seed) : sim{seed} {
    copies = 1 + std::uint32_t(below(3));
    replicas = 1 + std::uint32_t(below(4));
    steps = 3 + below(20);
    rule.kind = consistency_kind(below(3));
    if (rule.kind == consistency_kind::bounded)
      rule.max_staleness = std::uint32_t(below(3));
    if (is_synchronous())
      rule.backup_workers = std::uint32_t(below(replicas));
    std::vector<host_link> links;
    for (auto left = copies + below(3); left > 0; --left)
      links.push_back(add_host());
    for (auto left = 1 + below(3); left > 0; --left)
      add_router();
    const auto owner = routers.begin()->second;
    supervisor = sim.spawn(
      copy_supervisor, copy_supervisor_config{shards, copies, std::move(links),
                                              owner, 0ms, connector()});
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      get<std::uint64_t>(owner, shard, new_part{shard, "w", {1}}, floats({0}));
      get<std::uint64_t>(owner, shard,
                         new_optimizer{3, "sgd", {"learning_rate"}, {1}});
      get<std::uint64_t>(owner, shard, new_training{3},
                         training{1, replicas, {{shard, rule}}});
    }
    if (is_synchronous())
      lead(routers.begin()->first);
    for (std::uint32_t r = 0; r < replicas; ++r)
      host_replica(r, below(2) == 0);
  }

  // The simulator still delivers messages when it ends its actors.
  ~random_training() override { *is_over = true; }

  /// Returns what is wrong. Empty: nothing.
  std::string run() override {
    for (auto faults = below(12); faults > 0; --faults) {
      for (auto messages = below(150); messages > 0; --messages)
        step();
      inject();
      report_all();
    }
    for (int i = 0; i < 600 && !is_done(); ++i) {
      report_all();
      run_for(100);
    }
    if (!is_done())
      return problem.empty() ? "the training does not end" : problem;
    check();
    return problem;
  }

  bool is_synchronous() const {
    return rule.kind == consistency_kind::synchronous;
  }

private:
  struct replica {
    std::uint64_t router = 0; ///< Where it is.
    std::uint64_t life = 0;   ///< Counts its moves.
    std::uint64_t step = 0;
    std::uint32_t open = 0; ///< Requests of the step.
    std::uint64_t lowest_next = ~std::uint64_t{0};
    std::map<std::uint32_t, std::uint64_t> versions; ///< That it has read.
  };
  /// What a chief has chosen for a step. It need not take place.
  struct choice {
    std::vector<std::uint32_t> contributors;
    float scale = 1;
  };

  std::uint64_t below(std::uint64_t n) { return sim.draw() % n; }
  void run_for(std::uint64_t ms) {
    sim.advance(std::chrono::milliseconds{ms}, 5ms);
  }
  /// Delivers a message, so that a fault can come between any two.
  void step() {
    if (!sim.step())
      run_for(5);
  }
  void fail(const std::string& why) {
    if (problem.empty())
      problem = why;
  }

  host_connector connector() {
    return [this, over = is_over](const std::string& address,
                                  const caf::actor_addr& to) {
      if (*over)
        return;
      host_link link;
      link.address = address;
      link.server = std::stoull(address);
      if (const auto found = hosts.find(link.server); found != hosts.end())
        link.host = found->second;
      if (const auto receiver = caf::actor_cast<caf::actor>(to))
        caf::anon_send(receiver, std::move(link));
    };
  }
  host_link add_host() {
    const auto server = next_server++;
    hosts[server] =
      sim.spawn(shard_host, shard_host_config{server, shards, connector()});
    connections[server] =
      sim.spawn(shard_host_access, shard_host_actor{hosts[server]});
    return {std::to_string(server), server, connections[server], {}, {}, false};
  }
  void add_router() {
    std::vector<std::string> addresses;
    for (const auto& [server, unused] : hosts)
      addresses.push_back(std::to_string(server));
    const auto number = next_router++;
    routers[number] =
      sim.spawn(shard_router, shard_router_config{number, shards, addresses,
                                                  connector(), 60s});
  }

  template <class Answer, class Actor, class... Message>
  Answer get(const Actor& to, Message... message) {
    caf::scoped_actor self{sim.sys, true};
    auto reply = self->request(to, 1000s, std::move(message)...);
    for (int i = 0; i < 10'000 && !self->has_next_message(); ++i)
      step();
    Answer out{};
    if (!self->has_next_message()) {
      fail("no answer");
      return out;
    }
    reply.receive([&](Answer& x) { out = std::move(x); },
                  [&](const caf::error& e) { fail(caf::to_string(e)); });
    return out;
  }

  // -- replicas ---------------------------------------------------------------

  /// @param is_new false: it asks the shards for its step.
  void host_replica(std::uint32_t r, bool is_new) {
    auto& one = all[r];
    const auto life = one.life + 1;
    one = {};
    one.life = life;
    one.router =
      std::next(routers.begin(), std::int64_t(below(routers.size())))->first;
    if (is_new)
      return read(r);
    pull_all(r, 0, [this, r] {
      all[r].step = all[r].lowest_next;
      report(r);
      if (all[r].step < steps)
        read(r);
    });
  }

  void read(std::uint32_t r) {
    pull_all(r, all[r].step, [this, r] { push_all(r); });
  }

  void pull_all(std::uint32_t r, std::uint64_t step,
                const std::function<void()>& then) {
    all[r].open = shards;
    all[r].lowest_next = ~std::uint64_t{0};
    for (std::uint32_t shard = 0; shard < shards; ++shard)
      ask<pulled, tensors>(
        r,
        [this, r, shard, then](const pulled& x, const tensors& values) {
          auto& one = all[r];
          check_read(shard, x.versions.at(0), values.at(0).data<float>()[0]);
          one.versions[shard] = x.versions.at(0);
          one.lowest_next = std::min(one.lowest_next, x.next_step);
          if (--one.open == 0)
            then();
        },
        replica_pull{shard, 1, r, step, {0}, {0}}, tensors{});
  }

  void push_all(std::uint32_t r) {
    auto& one = all[r];
    const auto step = one.step;
    one.open = shards;
    for (std::uint32_t shard = 0; shard < shards; ++shard)
      ask<push_result>(
        r,
        [this, r](push_result) {
          auto& at = all[r];
          if (--at.open > 0)
            return;
          ++at.step;
          report(r);
          if (at.step < steps)
            read(r);
        },
        replica_push{shard, 1, {r, step, 0}, one.versions[shard], {}},
        tensors{floats({gradient_of(r, step, shard)})});
  }

  // -- chiefs -----------------------------------------------------------------

  /// A router becomes the chief. The one before may live, and go on.
  void lead(std::uint64_t router) {
    chief_router = router;
    const auto number = ++last_chief;
    lead_training what{1, replicas, rule.backup_workers, number};
    what.factors =
      [this, over = is_over](std::uint64_t step,
                             const std::vector<std::uint32_t>& contributors) {
        if (*over)
          return update_factors{};
        choices[step].push_back({contributors, float(1 + step % 3)});
        return update_factors{false, 0, choices[step].back().scale};
      };
    what.on_decided = [this, over = is_over, number](std::uint64_t decided) {
      if (!*over && number == last_chief)
        decided_steps = decided;
    };
    sim.spawn([=, this, over = is_over, to = routers.at(router)](
                caf::event_based_actor* self) -> caf::behavior {
      self->request(to, 1000s, what)
        .then(
          [=, this](std::uint64_t) {
            if (!*over && number == last_chief)
              fail("the last chief has ended");
          },
          [=, this](const caf::error& e) {
            if (*over)
              return;
            if (number == last_chief)
              fail(caf::to_string(e));
            if (e == caf::make_error(ec::superseded))
              count("chiefs superseded");
          });
      return {};
    });
  }

  /// Workers tell the chief again and again, and learn of another one at some
  /// time.
  void report_all() {
    for (const auto& [r, unused] : all) {
      report(r);
      if (below(3) == 0)
        known_chiefs[r] = chief_router;
    }
  }

  /// Tells the chief that the worker knows what a replica has contributed to.
  void report(std::uint32_t r) {
    const auto to =
      routers.find(known_chiefs.try_emplace(r, chief_router).first->second);
    if (is_synchronous() && to != routers.end())
      caf::anon_send(to->second, contributed{r, all[r].step, 1});
  }

  /// Sends a request of a replica. Its answer has no effect if the replica was
  /// moved meanwhile.
  template <class... Answer, class F, class... Message>
  void ask(std::uint32_t r, const F& on_answer, Message... message) {
    sim.spawn([=, this, over = is_over, life = all[r].life,
               to = routers.at(all[r].router)](
                caf::event_based_actor* self) -> caf::behavior {
      self->request(to, 1000s, message...)
        .then(
          [=, this](const Answer&... answer) {
            if (!*over && all[r].life == life)
              on_answer(answer...);
          },
          [=, this](const caf::error& e) {
            if (!*over && all[r].life == life)
              fail(caf::to_string(e));
          });
      return {};
    });
  }

  // -- faults -----------------------------------------------------------------

  void inject() {
    const auto what = below(6);
    if (what == 0)
      return move_replicas();
    if (what == 5) {
      if (!is_synchronous())
        return;
      count("chiefs replaced");
      return lead(
        std::next(routers.begin(), std::int64_t(below(routers.size())))->first);
    }
    if (what == 1) {
      count("servers joined");
      caf::anon_send(supervisor, add_host());
      return;
    }
    if (copies == 1)
      return;
    // Others have the copies of all servers, and no loss is still unknown.
    const auto known = get<copies_status>(supervisor, atom::status_v);
    if (!known.is_settled || known.losses < losses
        || std::ranges::min(known.in_sync) < 2)
      return;
    ++losses;
    count("servers lost");
    const auto lost =
      std::next(hosts.begin(), std::int64_t(below(hosts.size())));
    // The server dies, or only its connection to the supervisor ends: then the
    // server goes on in its last view, and workers reach it.
    if (below(2) == 0) {
      caf::anon_send_exit(lost->second, caf::exit_reason::kill);
    } else {
      caf::anon_send_exit(connections.at(lost->first), caf::exit_reason::kill);
      count("servers cut off from the supervisor");
    }
    hosts.erase(lost);
  }

  /// A worker is lost. Others go on with its replicas.
  void move_replicas() {
    if (routers.size() == 1)
      add_router();
    // The first one belongs to the coordinator.
    const auto lost =
      std::next(routers.begin(), 1 + std::int64_t(below(routers.size() - 1)));
    const auto number = lost->first;
    caf::anon_send_exit(lost->second, caf::exit_reason::kill);
    routers.erase(lost);
    if (is_synchronous() && number == chief_router) {
      count("chiefs replaced");
      lead(routers.begin()->first);
    }
    for (std::uint32_t r = 0; r < replicas; ++r)
      if (all[r].router == number) {
        count("replicas moved");
        host_replica(r, false);
      }
  }

  // -- the end ----------------------------------------------------------------

  bool is_done() const {
    return (!is_synchronous() || decided_steps >= steps)
           && std::ranges::all_of(
             all, [this](const auto& one) { return one.second.step >= steps; });
  }

  /// All who read a version of a synchronous part read the same.
  void check_read(std::uint32_t shard, std::uint64_t version, float value) {
    if (is_synchronous()
        && values[version].try_emplace(shard, value).first->second != value)
      fail("two replicas read a version with different values");
  }

  /// What a choice changes in a part.
  static float change_of(const choice& x, std::uint64_t step,
                         std::uint32_t shard) {
    float sum = 0;
    for (const auto r : x.contributors)
      sum -= gradient_of(r, step, shard);
    return sum * x.scale;
  }

  /// All shards have applied the same choice in each step.
  void check_decisions() {
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto is_made = [&](const choice& x) {
        for (std::uint32_t shard = 0; shard < shards; ++shard)
          if (values.at(step + 1).at(shard)
              != values.at(step).at(shard) + change_of(x, step, shard))
            return false;
        return x.contributors.size() == replicas - rule.backup_workers;
      };
      if (std::ranges::none_of(choices[step], is_made))
        fail("a step was decided by no chief, or by two");
    }
  }

  void check() {
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      float expected = 0;
      for (std::uint32_t r = 0; r < replicas; ++r)
        for (std::uint64_t step = 0; step < steps; ++step)
          expected -= gradient_of(r, step, shard);
      const auto found = get<tensor>(routers.begin()->second, shard,
                                     part_pull{shard, false, {}}, tensors{});
      if (is_synchronous() && found)
        check_read(shard, steps, found.data<float>()[0]);
      else if (!found || found.data<float>()[0] != expected)
        fail("a contribution is lost, or counts twice");
    }
    if (is_synchronous() && problem.empty())
      check_decisions();
  }

  simulation::simulator sim;
  std::shared_ptr<bool> is_over = std::make_shared<bool>(false);
  std::uint32_t copies = 1, replicas = 1;
  std::uint64_t losses = 0; ///< Of servers.
  std::uint64_t steps = 1, next_server = 1, next_router = 1;
  consistency rule{consistency_kind::asynchronous, 0, 0};
  std::map<std::uint64_t, shard_host_internal_actor> hosts;
  std::map<std::uint64_t, shard_host_actor> connections; ///< Of the supervisor.
  std::map<std::uint64_t, shard_router_internal_actor> routers;
  copy_supervisor_actor supervisor;
  std::map<std::uint32_t, replica> all;
  // Of synchronous steps.
  std::uint64_t chief_router = 0, last_chief = 0, decided_steps = 0;
  std::map<std::uint32_t, std::uint64_t> known_chiefs;  ///< By replica.
  std::map<std::uint64_t, std::vector<choice>> choices; ///< By step.
  /// That were read, by version and shard.
  std::map<std::uint64_t, std::map<std::uint32_t, float>> values;
  std::string problem;
};

} // namespace

std::unique_ptr<checked_job> make_random_training(std::uint64_t seed) {
  return std::make_unique<random_training>(seed);
}

} // namespace troupe
