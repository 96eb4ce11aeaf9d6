#include "troupe/data/sources/digits.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tests/support/malloc_counter.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace {

using namespace troupe;

/// What the caller's thread asks of malloc from the end of step 5 to the end of
/// the last one: whole steps, with the feed, which then holds as many batches
/// as replicas may be apart, and the commit.
std::uint64_t calls_in_a_fit(const models::model_description& what,
                             std::uint32_t replicas) {
  const one_device_strategy strategy{"cpu:0", {.replicas = replicas}};
  const auto scope = strategy.scope();
  model it{what, adam{}};
  std::optional<troupe::testing::malloc_counter> counter;
  std::uint64_t calls = 0;
  fit_options options;
  options.prefetch = 0; // a reading thread takes blocks when it happens to
  options.callbacks.push_back({.on_step = [&](const step_record& x) {
    if (x.step == 5)
      counter.emplace();
    if (counter)
      calls = counter->calls();
  }});
  it.fit(data::digits({.examples = 320}).batch(32), options);
  return calls;
}

TEST(Fit, AsksMallocForNothingOnceTheFeedIsFull) {
  if (troupe::testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's products call malloc on this processor";
  EXPECT_EQ(calls_in_a_fit(models::mlp(), 1), 0u);
  EXPECT_EQ(calls_in_a_fit(models::lenet(), 1), 0u);
}

TEST(Fit, AsksMallocForNothingWithReplicasInTurnEither) {
  if (troupe::testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's products call malloc on this processor";
  EXPECT_EQ(calls_in_a_fit(models::mlp(), 2), 0u);
}

} // namespace
