#pragma once

#include "troupe/simulation/simulated_strategy.hpp"
#include "troupe/tensors/variable.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::simulation {

/// Trains with the strategy that it is given, and returns what must not depend
/// on who was faster, or on faults: weights, say. What it starts from must be
/// the same in each call.
using job = std::function<tensors(const strategy&)>;

/// Under what to try a job.
struct trials {
  faults plan{};
  std::uint64_t seeds = 1000;
  std::uint64_t first_seed = 1;
  /// Where `reducing` is automatic, odd seeds let replicas add and even ones
  /// reducers.
  crew_options crew{.replicas = 3};
  std::uint32_t processes = 1; ///< Over which the replicas are spread.
  simulation::network network{};
  /// Whether each process runs the job, over the replicas that it holds, as
  /// workers do. What they return is compared as one, in their order.
  bool workers = false;
};

struct verdict {
  bool same = true;
  std::string what; ///< If not: the seed, and the first element that differs.
  fault_dice::counts fired;  ///< Over all seeds.
  std::size_t delivered = 0; ///< Messages, over all seeds.
};

/// Runs the job once on one device, where the replicas take turns and nothing
/// can go wrong, then in the simulator with each seed, and compares what it
/// returns, bit by bit.
/// @cost stops at the first difference.
verdict same_bits(const job& what, const trials& under = {});

/// The same for code that needs no more than a crew.
using crew_job = std::function<tensors(crew&)>;
verdict same_bits_of_crew(const crew_job& what, const trials& under = {});

/// "" if the bits agree, else which element of which tensor differs first, with
/// both values.
std::string difference(const tensors& a, const tensors& b);

/// What each replica holds of some variables: those of replica 0, then those of
/// replica 1, ...
tensors values_on_each(const strategy& of, const std::vector<variable>& all);

} // namespace troupe::simulation

/// For GoogleTest: EXPECT_SAME_BITS(my_job, {.plan = faults{}.delay(0.1)})
/// fails if a seed makes a difference.
#define EXPECT_SAME_BITS(...)                                                  \
  GTEST_AMBIGUOUS_ELSE_BLOCKER_                                                \
  if (const auto troupe_verdict =                                              \
        ::troupe::simulation::same_bits(__VA_ARGS__);                          \
      troupe_verdict.same) {                                                   \
  } else                                                                       \
    ADD_FAILURE() << troupe_verdict.what
