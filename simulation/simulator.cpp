#include "troupe/simulation/simulator.hpp"

#include <caf/actor_registry.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace troupe::simulation {

namespace {

config& simulated(config& c) {
  c.put("scheduler.policy", caf::atom("testing"));
  return c;
}

} // namespace

sim::sim(std::uint64_t seed)
  : rng_{seed},
    sys{simulated(cfg)},
    sched{dynamic_cast<caf::scheduler::test_coordinator&>(sys.scheduler())} {}

sim::~sim() {
  for (const auto& who : spawned_)
    if (const auto it = caf::actor_cast<caf::strong_actor_ptr>(who))
      caf::anon_send_exit(caf::actor_cast<caf::actor>(it),
                          caf::exit_reason::kill);
  settle();
  for (int i = 0; i < 10'000 && sys.registry().running() > 0 && next(); ++i) {
  }
  if (const auto left = sys.registry().running(); left > 0) {
    std::fprintf(stderr, "simulator: %zu actors do not terminate\n", left);
    std::abort();
  }
}

bool sim::step() {
  if (sched.jobs.empty())
    return false;
  std::swap(sched.jobs.front(), sched.jobs[rng_() % sched.jobs.size()]);
  sched.run_once();
  ++delivered;
  return true;
}

void sim::settle(std::size_t limit) {
  while (limit-- > 0 && step()) {
  }
}

void sim::advance(caf::timespan by, caf::timespan grain) {
  settle();
  for (; by > caf::timespan{0}; by -= grain) {
    sched.advance_time(std::min(by, grain));
    settle();
  }
}

bool sim::next() {
  return step() || sched.trigger_timeout();
}

bool sim::run_until(const std::function<bool()>& done) {
  while (!done())
    if (!next())
      return false;
  return true;
}

caf::timespan sim::elapsed() const {
  return sched.clock().current_time.time_since_epoch();
}

} // namespace troupe::simulation
