#pragma once

#include "troupe/simulation/simulated_strategy.hpp"
#include "troupe/tensors/variable.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::simulation {

/// Function that trains with a strategy and returns tensors that must not
/// depend on timing or faults, such as the weights. It must start from the same
/// state in each call.
using job_function = std::function<tensors(const strategy&)>;

/// Conditions under which a job is run.
struct trial_options {
  faults plan{};
  std::uint64_t seeds = 1000; ///< Number of seeds.
  std::uint64_t first_seed = 1;
  /// Options of the replica group. If `reducers` is automatic, the seed decides
  /// who adds: the replicas' threads for odd seeds, reducer actors for even
  /// seeds.
  replica_group_options group{.replicas = 3};
  std::uint32_t processes = 1; ///< Number of processes that host the replicas.
  simulation::network_options network{};
  /// The replicas that each process hosts. Empty: consecutive ones, as evenly
  /// as possible.
  std::vector<placement::id_list> replicas_by_process{};
  /// True: each process runs the job over the replicas that it hosts, as the
  /// workers of a real job do. The tensors of all processes are compared as one
  /// list, in the order of the processes. False: the job runs once, over all
  /// replicas.
  bool workers = false;
};

/// Result of a determinism check.
struct determinism_result {
  bool same = true; ///< Every seed gave the expected tensors.
  /// Names the seed and the reason: the first element that differs, or the
  /// exception that the job threw. Empty if `same` is true.
  std::string message;
  random_fault_injector::counts fired; ///< Injected faults, over all seeds.
  std::size_t delivered = 0;           ///< Delivered messages, over all seeds.
};

/// Runs the job once without faults on one device, where the replicas take
/// turns. Then runs it in the simulator with each seed, and compares the
/// returned tensors bit by bit with those of the first run.
/// @cost stops at the first difference.
determinism_result same_bits(const job_function& training_job,
                             const trial_options& trials = {});

/// Function that runs steps on a replica group and returns tensors that must
/// not depend on timing or faults.
using group_job = std::function<tensors(replica_group&)>;
/// Runs the function once without faults on a sequential group. Then continues
/// as `same_bits` does. `workers` has no effect.
determinism_result same_bits_of_group(const group_job& training_job,
                                      const trial_options& trials = {});

/// Describes the first element that differs: its tensor, its index and both
/// values. Empty: all bits are equal.
std::string difference(const tensors& a, const tensors& b);

/// Returns the values that the variables have on each local replica: all values
/// on replica 0, then all values on replica 1, ...
tensors values_on_each(const strategy& job_strategy,
                       const std::vector<variable>& variables);

} // namespace troupe::simulation

/// GoogleTest assertion that fails if a seed makes a difference. Takes the
/// arguments of `same_bits`:
/// EXPECT_SAME_BITS(my_job, {.plan = faults{}.delay(0.1)})
#define EXPECT_SAME_BITS(...)                                                  \
  GTEST_AMBIGUOUS_ELSE_BLOCKER_                                                \
  if (const auto troupe_result = ::troupe::simulation::same_bits(__VA_ARGS__); \
      troupe_result.same) {                                                    \
  } else                                                                       \
    ADD_FAILURE() << troupe_result.message
