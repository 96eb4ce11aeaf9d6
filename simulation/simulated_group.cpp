#include "troupe/simulation/simulated_group.hpp"

#include "troupe/actors/core/fiber.hpp"
#include "troupe/simulation/simulated_wait.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe::simulation {

bool simulated_wait_strategy::wait(std::unique_lock<std::mutex>& hold,
                                   const std::function<bool()>& done,
                                   std::chrono::milliseconds timeout) {
  const auto deadline = sim_.elapsed() + timeout;
  while (!done()) {
    hold.unlock(); // actors that run during the wait may lock it
    bool more = true;
    if (fiber::inside())
      fiber::park();
    else
      more = step();
    hold.lock();
    if (!more || abandoned_ || sim_.elapsed() > deadline)
      return done();
  }
  return true;
}

void simulated_wait_strategy::register_role(const role_id& role,
                                            const caf::actor& handle) {
  sim_.own(handle);
  if (role.role == role_id::kind::replica)
    replicas_[role.id] = handle.address();
}

bool simulated_wait_strategy::step() {
  while (const auto who = faults_ ? faults_->next_kill() : std::nullopt)
    if (const auto it = caf::actor_cast<caf::actor>(replicas_[*who]))
      caf::anon_send_exit(it, caf::exit_reason::kill);
  while (const auto x =
           faults_ && net_ ? faults_->next_network_fault() : std::nullopt)
    if (x->kind == fault_kind::clog)
      net_->clog(*x->process, x->factor);
    else
      net_->disconnect(*x->process, x->kind == fault_kind::disconnect
                                      ? net::close_reason::closed
                                      : net::close_reason::timed_out);
  return sim_.advance_once();
}

group_environment
simulated_environment(simulator& sim,
                      const std::shared_ptr<simulated_wait_strategy>& waits,
                      random_fault_injector* faults) {
  group_environment environment{sim.sys};
  environment.replica_spawn_policy = spawn_policy::scheduled;
  environment.caller_wait_strategy = waits;
  // the caller owns the injector
  environment.faults = {faults, [](fault_injector*) {}};
  environment.via_mailbox = true;
  environment.on_spawn = [waits](const role_id& who, const caf::actor& it) {
    waits->register_role(who, it);
  };
  return environment;
}

std::unique_ptr<replica_group>
make_replica_group(simulator& sim, const replica_group_options& options,
                   random_fault_injector* faults) {
  auto local_options = options;
  local_options.spin_timeout =
    // spinning would not advance the virtual clock
    std::chrono::microseconds{0};
  return troupe::make_replica_group(
    simulated_environment(
      sim, std::make_shared<simulated_wait_strategy>(sim, faults), faults),
    local_options);
}

} // namespace troupe::simulation
