// A closure link and the worker on its node, in one simulator.

#include "troupe/actors/coordinator/closure_link.hpp"
#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/coordinator/remote_closure_worker.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// What the test, which is the closure worker, has received and not ended.
struct worker_log {
  std::map<std::uint64_t, shared_closure> runs; ///< By ordinal.
  std::set<std::uint64_t> cancelled;
};

closure_worker_actor::behavior_type worker(closure_worker_actor::pointer,
                                           worker_log* log) {
  return {
    [log](const coordinator::run& x, const shared_closure& what) {
      EXPECT_TRUE(log->runs.emplace(x.execution.ordinal, what).second);
    },
    [log](const coordinator::cancel& x) {
      log->cancelled.insert(x.execution.ordinal);
    },
    [](atom::next) {},
  };
}

/// Number of elements of the result, -1: failed, -2: stopped; by ordinal.
using outcomes = std::map<std::uint64_t, std::int64_t>;

void note(outcomes& all, std::uint64_t ordinal, std::int64_t what) {
  EXPECT_TRUE(all.emplace(ordinal, what).second) << ordinal << " ends twice";
}

closure_worker_owner_actor::behavior_type
scheduler(closure_worker_owner_actor::pointer, outcomes* all) {
  return {
    [](std::uint64_t, const coordinator::execution&, const tensors&) {},
    [all](std::uint64_t, const coordinator::ended& x,
          const coordinator::payload& results) {
      const auto& list = *static_cast<const tensors*>(results.get());
      note(*all, x.execution.ordinal,
           list.empty() ? 0 : std::int64_t(list.front().size()));
    },
    [all](std::uint64_t, const coordinator::failed& x, const closure_failure&) {
      note(*all, x.execution.ordinal, -1);
    },
    [all](std::uint64_t, const coordinator::stopped& x) {
      note(*all, x.execution.ordinal, -2);
    },
  };
}

/// Runs executions with inputs and results of random sizes, of which some fail
/// and some are stopped, and expects the end of each.
void run_seed(std::uint64_t seed) {
  constexpr std::uint64_t count = 60;
  constexpr auto large = std::int64_t(max_batch_bytes) / 4;
  worker_log log;
  outcomes expected, found;
  simulation::simulator simulator{seed};
  const auto draw = [&](std::uint64_t below) {
    return simulator.draw() % below;
  };
  const auto random_tensors = [&] {
    const std::int64_t sizes[] = {0, 1, large / 3, large};
    const auto size = sizes[draw(4)];
    return size == 0 ? tensors{} : tensors{tensor::zeros({size})};
  };
  const auto remote = simulator.spawn(remote_closure_worker);
  const auto owner = simulator.spawn(scheduler, &found);
  const auto link = simulator.spawn(
    closure_link,
    closure_link_config{.id = 0,
                        .number = 0,
                        .address = "host:1",
                        .owner = owner,
                        .worker =
                          caf::actor_cast<remote_closure_worker_actor>(remote),
                        .timeout = std::chrono::minutes{10}});
  auto setup = std::make_shared<worker_setup>();
  setup->closures["known"] = [](closure_environment&, const tensors& xs) {
    return xs;
  };
  closure_worker_owner_actor to;
  setup->spawn = [&](const closure_worker_owner_actor& self) {
    to = self;
    return simulator.spawn(worker, &log);
  };
  const auto in_flight = 1 + draw(20);
  const auto setup_at = draw(10);
  std::uint64_t next = 0;
  for (int turn = 0; found.size() < count; ++turn) {
    ASSERT_LT(turn, 100'000)
      << found.size() << " of " << count << " have ended";
    if (turn == int(setup_at))
      caf::anon_send(remote, shared_setup{setup});
    switch (draw(5)) {
      case 0:
        if (next < count && next - found.size() < in_flight)
          caf::anon_send(
            link, coordinator::run{coordinator::execution{next++}},
            std::make_shared<closure>("known", random_tensors(), nullptr));
        break;
      case 1:
        if (next > 0 && draw(10) == 0)
          caf::anon_send(
            link, coordinator::cancel{coordinator::execution{draw(next)}});
        break;
      case 2:
        if (!log.runs.empty()) {
          const auto one = log.runs.begin();
          const auto ordinal = one->first;
          const coordinator::execution which{ordinal};
          if (log.cancelled.contains(ordinal)) {
            caf::anon_send(to, std::uint64_t{0}, coordinator::stopped{which});
            expected[ordinal] = -2;
          } else if (draw(8) == 0) {
            caf::anon_send(
              to, std::uint64_t{0}, coordinator::failed{which},
              closure_failure{
                std::make_exception_ptr(std::runtime_error{"thrown"}), 0});
            expected[ordinal] = -1;
          } else {
            auto results = random_tensors();
            expected[ordinal] =
              results.empty() ? 0 : std::int64_t(results.front().size());
            caf::anon_send(to, std::uint64_t{0}, coordinator::ended{which, {}},
                           coordinator::payload{std::make_shared<const tensors>(
                             std::move(results))});
          }
          log.runs.erase(one);
        }
        break;
      default:
        if (!simulator.step() && log.runs.empty() && next - found.size() > 0)
          simulator.advance_once();
    }
  }
  for (const auto& [ordinal, what] : found) // others were stopped before
    EXPECT_EQ(what, expected.contains(ordinal) ? expected.at(ordinal) : -2)
      << ordinal;
}

TEST(RemoteClosures, EachExecutionEndsOnce) {
  for (std::uint64_t seed = 0; seed < test::seeds_of(300); ++seed) {
    run_seed(seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

} // namespace
} // namespace troupe
