#pragma once

#include "troupe/tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe::test {

/// Trains, and twice aborts a step and redoes it with another batch. In step 2
/// the last replica rejects its batch after the others have sent their
/// contributions. In step 4 it does so when results are in flight too, which
/// the others only read. Late messages then belong to the same step of an older
/// generation.
inline tensors train_with_second_thoughts(crew& on) {
  constexpr std::uint64_t steps = 6;
  tiny_training training{on.replicas()};
  const auto last = on.replicas() - 1;
  const auto step = [&](step_context& at) { training.step(at); };
  const auto refuse = [&](step_context& at) {
    if (at.replica == last && at.step == 2)
      throw std::runtime_error("a bad batch");
    training.contribute(at, at.step);
    if (at.replica == last)
      throw std::runtime_error("a bad gradient");
    training.sums(at);
  };
  const auto instead = [&](step_context& at) {
    training.step(at, 100 + at.step);
  };
  on.run({.steps = 2, .step = step, .on_commit = {}});
  for (std::uint64_t s = 2; s < steps; s += 2) {
    EXPECT_ANY_THROW(
      on.run({.first_step = s, .steps = 1, .step = refuse, .on_commit = {}}));
    on.run({.first_step = s, .steps = 1, .step = instead, .on_commit = {}});
    on.run({.first_step = s + 1, .steps = 1, .step = step, .on_commit = {}});
  }
  return training.state();
}

} // namespace troupe::test
