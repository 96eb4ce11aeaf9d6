#pragma once

#include "troupe/benchmarks/workload.hpp"

#include <barrier>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace troupe::benchmarks {

/// How replicas combine their gradients.
enum class gradient_sync {
  none, ///< Each replica trains alone: only the ops of a step.
  /// Each replica adds a range of the sum, between two barriers. This is the
  /// arithmetic of a synchronous step with the cheapest wait.
  sums,
};

/// Training steps without a runtime. Each replica has a thread and parameters
/// of its own, and calls the ops one after the other.
class baseline_loop {
public:
  /// @param batch  examples per replica and step.
  baseline_loop(const workload& workload, std::uint64_t batch,
                std::uint32_t replicas, int threads,
                gradient_sync sync = gradient_sync::none);
  ~baseline_loop();

  /// Runs `steps` steps on every replica and waits for them.
  void run(std::uint64_t steps);

  /// @returns the mean loss of replica 0 over the examples of its last step.
  double last_loss() const;

private:
  struct replica;

  void run_replica(replica& self);
  void step(replica& self);
  void sum(replica& self);

  const workload& workload_;
  update_rule rule_;
  gradient_sync sync_;
  tensor sum_; ///< Sum of the gradients of all replicas.
  std::vector<std::unique_ptr<replica>> replicas_;
  std::barrier<> sum_barrier_; ///< Barrier of the replicas.
  std::barrier<> run_barrier_; ///< Barrier of the replicas and the caller.
  /// Steps of the current run. Zero: the threads end.
  std::uint64_t steps_ = 0;
  std::vector<std::jthread> threads_;
};

} // namespace troupe::benchmarks
