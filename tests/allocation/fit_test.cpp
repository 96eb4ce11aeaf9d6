#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/models/layer.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tests/support/malloc_counter.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <thread>

namespace {

using namespace troupe;

/// Counts the calls of malloc by the caller's thread from the end of step 5 to
/// the end of the last step. A step includes its commit and the reading of its
/// batch. By step 5, the batch feed is full: it holds one batch for each step
/// by which replicas can be apart.
std::uint64_t
calls_in_a_fit(const models::model_description& what, std::uint32_t replicas,
               models::precision precision = models::precision::float32) {
  const one_device_strategy strategy{"cpu:0", {.replicas = replicas}};
  const auto scope = strategy.scope();
  model fitted{what, adam{}, {.precision = precision}};
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

TEST(Fit, CallsNoMallocInBf16) {
  if (troupe::testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's matrix products call malloc on this processor";
  for (const std::uint32_t replicas : {1, 2})
    for (const auto& what : {models::mlp(), models::lenet()})
      EXPECT_EQ(calls_in_a_fit(what, replicas, models::precision::bf16), 0u)
        << what.name << " with " << replicas << " replicas";
}

/// Counts the calls of malloc by the threads of the replicas from the sixth
/// training step on. The thread of a replica passes the layer once in a step.
struct replica_thread {
  std::thread::id id;
  int steps = 0;
  std::optional<troupe::testing::malloc_counter> counter;
  std::uint64_t calls = 0;

  void count_step() {
    if (++steps == 6) {
      id = std::this_thread::get_id();
      counter.emplace();
    } else if (steps > 6) {
      EXPECT_EQ(id, std::this_thread::get_id());
      calls = counter->calls();
    }
  }
};
std::array<replica_thread, 2> replica_threads;

class counting_layer final : public models::layer {
public:
  std::string_view type() const override { return "counting"; }
  shape build(const shape& input, models::builder&) const override {
    return input;
  }
  tensor forward(const tensor& x, const models::layer_scope& s) const override {
    if (s.training())
      replica_threads.at(current_context().random.replica).count_step();
    return x;
  }
};

/// The step itself calls no malloc. The messages between the replica and the
/// chief sometimes do, when the free lists of CAF are empty.
TEST(Fit, CallsMallocInFewStepsOnTheThreadsOfMirroredReplicas) {
  if (troupe::testing::products_call_malloc())
    GTEST_SKIP() << "oneDNN's matrix products call malloc on this processor";
  runtime actors;
  const mirrored_strategy strategy{actors, {"cpu:0", "cpu:1"}};
  const auto scope = strategy.scope();
  models::register_layer<counting_layer>();
  auto description = models::mlp();
  description.layers.insert(description.layers.begin(),
                            std::make_shared<counting_layer>());
  model fitted{description, adam{}};
  fitted.fit(data::digits({.examples = 1280}).batch(32), {.prefetch = 0});
  for (const auto& x : replica_threads) {
    EXPECT_EQ(x.steps, 40);
    EXPECT_LT(x.calls, 17u) << "in 34 steps";
  }
}

} // namespace
