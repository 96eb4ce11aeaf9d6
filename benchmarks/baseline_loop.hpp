#pragma once

#include "troupe/benchmarks/workload.hpp"

#include <barrier>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace troupe::benchmarks {

/// How replicas combine their gradients.
enum class sharing {
  none, ///< Each replica trains alone: only the ops of a step.
  sums, ///< Each replica adds a range of the sum, between two barriers. This is
        ///< the arithmetic of a synchronous step with the cheapest wait.
};

/// Training steps without a runtime. Each replica has a thread and parameters
/// of its own, and calls the ops one after the other.
class bare_loop {
public:
  /// @param batch  examples per replica and step.
  bare_loop(const workload& what, std::uint64_t batch, std::uint32_t replicas,
            int threads, sharing how = sharing::none);
  ~bare_loop();

  /// Runs `steps` steps on every replica and waits for them.
  void run(std::uint64_t steps);

  /// @returns the mean loss of replica 0 over the examples of its last step.
  double last_loss() const;

private:
  struct replica;

  void work(replica& mine);
  void step(replica& mine);
  void sum(replica& mine);

  const workload& what_;
  update_rule rule_;
  sharing how_;
  tensor sum_; ///< Sum of the gradients of all replicas.
  std::vector<std::unique_ptr<replica>> replicas_;
  std::barrier<> together_; ///< Barrier of the replicas.
  std::barrier<> gate_;     ///< Barrier of the replicas and the caller.
  std::uint64_t steps_ =
    0; ///< Steps of the current run. Zero: the threads end.
  std::vector<std::jthread> threads_;
};

} // namespace troupe::benchmarks
