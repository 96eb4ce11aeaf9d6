#include "troupe/data/sources/digits.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tests/support/malloc_counter.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace {

using namespace troupe;

/// Counts the calls of malloc by the caller's thread from the end of step 5 to
/// the end of the last step. A step includes its commit and the reading of its
/// batch. By step 5, the batch feed is full: it holds one batch for each step
/// by which replicas can be apart.
std::uint64_t calls_in_a_fit(const models::model_description& what,
                             std::uint32_t replicas) {
  const one_device_strategy strategy{"cpu:0", {.replicas = replicas}};
  const auto scope = strategy.scope();
  model fitted{what, adam{}};
  std::optional<troupe::testing::malloc_counter> counter;
  std::uint64_t calls = 0;
  fit_options options;
  options.prefetch = 0; // A prefetching thread allocates blocks at any time.
  options.callbacks.push_back({.on_step = [&](const step_record& x) {
    if (x.step == 5)
      counter.emplace();
    if (counter)
      calls = counter->calls();
  }});
  fitted.fit(data::digits({.examples = 320}).batch(32), options);
  return calls;
}

TEST(Fit, CallsNoMallocOnceTheFeedIsFull) {
  if (troupe::testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's matrix products call malloc on this processor";
  EXPECT_EQ(calls_in_a_fit(models::mlp(), 1), 0u);
  EXPECT_EQ(calls_in_a_fit(models::lenet(), 1), 0u);
}

TEST(Fit, CallsNoMallocWithReplicasInTurn) {
  if (troupe::testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's matrix products call malloc on this processor";
  EXPECT_EQ(calls_in_a_fit(models::mlp(), 2), 0u);
}

} // namespace
