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
using job = std::function<tensors(const strategy&)>;

/// Conditions under which a job is run.
struct trial_options {
  faults plan{};
  std::uint64_t seeds = 1000; ///< Number of seeds.
  std::uint64_t first_seed = 1;
  /// If `reducers` of the group is automatic, odd seeds add sums on the
  /// replicas' threads and even seeds in reducer actors.
  replica_group_options group{.replicas = 3};
  std::uint32_t processes = 1; ///< Number of processes that host the replicas.
  simulation::network_options network{};
  /// True: each process runs the job over the replicas that it hosts, as the
  /// workers of a real job do. The tensors that they return are compared as one
  /// list, in the order of the processes. False: the job runs once, over all
  /// replicas.
  bool workers = false;
};

/// Result of a determinism check.
struct determinism_result {
  bool same = true; ///< No seed made a difference, and none threw.
  /// The seed, and the first element that differs or the exception. Empty if
  /// `same` is true.
  std::string message;
  random_fault_injector::counts fired; ///< Injected faults of all seeds.
  std::size_t delivered = 0;           ///< Delivered messages of all seeds.
};

/// Runs the job once on one device without faults, where the replicas take
/// turns, then in the simulator with each seed. Compares the returned tensors
/// bit by bit.
/// @cost stops at the first difference.
determinism_result same_bits(const job& training_job,
                             const trial_options& trials = {});

/// Function that runs steps on a replica group and returns tensors that must
/// not depend on timing or faults.
using group_job = std::function<tensors(replica_group&)>;
/// Checks a function of a replica group as `same_bits` checks a job. Ignores
/// `workers`.
determinism_result same_bits_of_group(const group_job& training_job,
                                      const trial_options& trials = {});

/// Returns the first element that differs, with its tensor and both values.
/// Empty if all bits agree.
std::string difference(const tensors& a, const tensors& b);

/// Returns the values of some variables on each local replica: those of replica
/// 0, then those of replica 1, ...
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
