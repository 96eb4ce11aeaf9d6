#pragma once

#include "troupe/benchmarks/workload.hpp"

#include <barrier>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace troupe::benchmarks {

/// What replicas do about each other's gradients.
enum class sharing {
  none, ///< Each trains alone: the ops, and nothing else.
  sums, ///< Each adds up its share of the sum, between two barriers: all the
        ///< arithmetic of a synchronous step, and the cheapest wait for it.
};

/// Training steps without a runtime: one thread per replica, each with
/// parameters of its own, which calls the ops one after the other.
class bare_loop {
public:
  /// @param batch  examples of each replica.
  bare_loop(const workload& what, std::uint64_t batch, std::uint32_t replicas,
            int threads, sharing how = sharing::none);
  ~bare_loop();

  /// Runs that many steps on every replica, and waits.
  void run(std::uint64_t steps);

  /// Of replica 0, over the examples of its last step.
  double last_loss() const;

private:
  struct replica;

  void work(replica& mine);
  void step(replica& mine);
  void sum(replica& mine);

  const workload& what_;
  update_rule rule_;
  sharing how_;
  tensor sum_; ///< Of the gradients of all.
  std::vector<std::unique_ptr<replica>> replicas_;
  std::barrier<> together_; ///< The replicas.
  std::barrier<> gate_;     ///< The replicas and the caller.
  std::uint64_t steps_ = 0; ///< Of this run; 0 ends the threads.
  std::vector<std::jthread> threads_;
};

} // namespace troupe::benchmarks
