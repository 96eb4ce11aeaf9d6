#include "troupe/simulation/simulator.hpp"

#include <caf/actor_registry.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace troupe::simulation {

namespace {

config& use_test_scheduler(config& c) {
  c.put("scheduler.policy", caf::atom("testing"));
  return c;
}

} // namespace

simulator::simulator(std::uint64_t seed)
  : rng_{seed},
    sys{use_test_scheduler(cfg)},
    sched{dynamic_cast<caf::scheduler::test_coordinator&>(sys.scheduler())} {}

simulator::~simulator() {
  is_held_ = {};
  for (const auto& who : spawned_)
    if (const auto it = caf::actor_cast<caf::strong_actor_ptr>(who))
      caf::anon_send_exit(caf::actor_cast<caf::actor>(it),
                          caf::exit_reason::kill);
  run_until_idle();
  for (int i = 0; i < 10'000 && sys.registry().running() > 0 && advance_once();
       ++i) {
  }
  if (const auto left = sys.registry().running(); left > 0) {
    std::fprintf(stderr, "simulator: %zu actors do not terminate\n", left);
    std::abort();
  }
}

bool simulator::step() {
  auto ready = sched.jobs.size();
  if (is_held_)
    ready =
      std::size_t(std::partition(sched.jobs.begin(), sched.jobs.end(),
                                 [this](caf::resumable* x) {
                                   const auto* const it =
                                     dynamic_cast<caf::abstract_actor*>(x);
                                   return !it || !is_held_(it->id());
                                 })
                  - sched.jobs.begin());
  if (ready == 0)
    return false;
  std::swap(sched.jobs.front(), sched.jobs[rng_() % ready]);
  sched.run_once();
  ++delivered;
  return true;
}

void simulator::run_until_idle(std::size_t limit) {
  while (limit-- > 0 && step()) {
  }
}

void simulator::advance(caf::timespan duration, caf::timespan grain) {
  run_until_idle();
  for (; duration > caf::timespan{0}; duration -= grain) {
    sched.advance_time(std::min(duration, grain));
    run_until_idle();
  }
}

bool simulator::advance_once() {
  return step() || sched.trigger_timeout();
}

bool simulator::run_until(const std::function<bool()>& done) {
  while (!done())
    if (!advance_once())
      return false;
  return true;
}

caf::timespan simulator::elapsed() const {
  return sched.clock().current_time.time_since_epoch();
}

} // namespace troupe::simulation
