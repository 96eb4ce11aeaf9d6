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
  none, ///< Not at all: each replica trains alone.
  /// Each replica adds the gradients of all replicas in one range of elements.
  /// Before and after this addition, the replica waits at a barrier for the
  /// other replicas. A barrier is the cheapest way to wait.
  sums,
};

/// Trains without the library's runtime and training loop, as a baseline for
/// `model.fit`. Each replica has its own thread and parameters, and calls the
/// ops directly.
class baseline_loop {
public:
  /// @param batch Number of examples per replica and step.
  /// @param on The device of all replicas. Replicas on another device than the
  ///        CPU train alone.
  baseline_loop(const workload& workload, std::uint64_t batch,
                std::uint32_t replicas, int threads,
                gradient_sync sync = gradient_sync::none,
                const device& on = {});
  ~baseline_loop();

  /// Runs `steps` steps on every replica and waits until they are done.
  void run(std::uint64_t steps);

  /// Returns the mean loss of replica 0 over the examples of its last step.
  double last_loss() const;

private:
  struct replica;

  void run_replica(replica& self);
  void step(replica& self);
  void sum(replica& self);
  void update_on_device(replica& self, const tensor& gradient,
                        std::int64_t examples);

  const workload& workload_;
  update_rule rule_;
  gradient_sync sync_;
  device on_;
  tensor sum_; ///< Sum of the gradients of all replicas.
  std::vector<std::unique_ptr<replica>> replicas_;
  std::barrier<> sum_barrier_; ///< Waits for all replicas.
  std::barrier<> run_barrier_; ///< Waits for all replicas and the caller.
  /// Number of steps of the current run. Zero: the threads end.
  std::uint64_t steps_ = 0;
  std::vector<std::jthread> threads_;
};

} // namespace troupe::benchmarks
