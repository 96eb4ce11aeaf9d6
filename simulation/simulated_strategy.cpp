#include "troupe/simulation/simulated_strategy.hpp"

#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/replica/devices.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

namespace troupe::simulation {

namespace {

/// Forwards to a replica group that it does not own.
class borrowed_group final : public replica_group {
public:
  explicit borrowed_group(replica_group& group) : group_{group} {}

  const local_placement& replica_placement() const override {
    return group_.replica_placement();
  }
  std::uint64_t max_steps_ahead() const override {
    return group_.max_steps_ahead();
  }
  std::uint64_t run(const run_request& request) override {
    return group_.run(request);
  }
  void stop() override { group_.stop(); }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    group_.for_each(fn);
  }

private:
  replica_group& group_;
};

} // namespace

strategy make_strategy(simulator& sim, const job_setup& setup,
                       random_fault_injector* faults) {
  auto state = make_strategy_state(
    make_replica_group(
      sim, setup.group_options(),
      {setup.processes, setup.network, setup.replicas_by_process}, faults),
    "mirrored", cpu_devices(setup.replicas), setup.threads);
  if (setup.processes > 1)
    state->copies = setup.replicas; // as if each were in a process of its own
  return strategy{std::move(state)};
}

strategy make_worker_strategy(simulated_processes& processes,
                              std::uint32_t process, int threads) {
  auto& group = processes.group_of(process);
  return strategy{make_strategy_state(
    std::make_unique<borrowed_group>(group), "multi_worker_mirrored",
    cpu_devices(group.replica_placement().count()), threads)};
}

} // namespace troupe::simulation
