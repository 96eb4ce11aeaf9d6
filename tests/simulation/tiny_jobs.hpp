#pragma once

#include "troupe/tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe::test {

/// Trains; steps 2 and 4 are aborted once and repeated with another batch. In
/// step 2 the last replica throws before it contributes; contributions of the
/// other replicas are in flight. In step 4 it throws after its own
/// contribution, so that results are in flight too. Late messages then belong
/// to the same step of an older generation.
inline tensors train_with_redone_steps(replica_group& group) {
  constexpr std::uint64_t steps = 6;
  tiny_training training{group.replicas()};
  const auto last = group.replicas() - 1;
  const auto step = [&](step_context& context) { training.step(context); };
  const auto reject = [&](step_context& context) {
    if (context.replica == last && context.step == 2)
      throw std::runtime_error("a bad batch");
    training.contribute(context, context.step);
    if (context.replica == last)
      throw std::runtime_error("a bad gradient");
    training.sums(context);
  };
  const auto redo = [&](step_context& context) {
    training.step(context, 100 + context.step);
  };
  group.run({.steps = 2, .step = step, .on_commit = {}});
  for (std::uint64_t s = 2; s < steps; s += 2) {
    EXPECT_ANY_THROW(group.run(
      {.first_step = s, .steps = 1, .step = reject, .on_commit = {}}));
    group.run({.first_step = s, .steps = 1, .step = redo, .on_commit = {}});
    group.run({.first_step = s + 1, .steps = 1, .step = step, .on_commit = {}});
  }
  return training.state();
}

} // namespace troupe::test
