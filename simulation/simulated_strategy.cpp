#include "troupe/simulation/simulated_strategy.hpp"

#include "troupe/training/strategies/strategy_state.hpp"

namespace troupe::simulation {

namespace {

/// Forwards to a replica group that it does not own.
class borrowed_crew final : public crew {
public:
  explicit borrowed_crew(crew& of) : of_{of} {}

  std::uint32_t replicas() const override { return of_.replicas(); }
  share local() const override { return of_.local(); }
  std::uint64_t ahead() const override { return of_.ahead(); }
  std::uint64_t run(const work& x) override { return of_.run(x); }
  void stop() override { of_.stop(); }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    of_.for_each(fn);
  }

private:
  crew& of_;
};

std::vector<device> cpus(std::uint32_t count) {
  std::vector<device> all;
  for (std::uint32_t r = 0; r < count; ++r)
    all.push_back({device_kind::cpu, r});
  return all;
}

} // namespace

strategy make_strategy(sim& in, const job_setup& setup, fault_dice* faults) {
  return strategy{state_over(
    make_crew(in, setup.crew(), {setup.processes, setup.network}, faults),
    "mirrored", cpus(setup.replicas), setup.threads)};
}

strategy make_worker_strategy(processes& of, std::uint32_t process,
                              int threads) {
  auto& mine = of.of(process);
  return strategy{state_over(std::make_unique<borrowed_crew>(mine),
                             "multi_worker_mirrored", cpus(mine.local().count),
                             threads)};
}

} // namespace troupe::simulation
