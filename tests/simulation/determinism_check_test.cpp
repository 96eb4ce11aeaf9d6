// [doc:begin includes]
#include "troupe/simulation/determinism_check.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using namespace troupe;
using namespace troupe::simulation;
// [doc:end]

#include <stdexcept>

namespace {

// [doc:begin job]
/// Trains a small classifier and returns the variables of each replica.
tensors my_job(const strategy& strategy) {
  static const auto images = data::digits({.examples = 60, .seed = 1});
  static const models::model_description network{
    "small",
    {28, 28, 1},
    models::stack(models::flatten{}, models::dense{8, activation::relu},
                  models::dense{10})};
  const auto scope = strategy.scope();
  model model{network, adam{.learning_rate = 0.01f}};
  model.fit(images.shuffle().batch(24), {.epochs = 2, .prefetch = 0});
  return values_on_each(strategy, model.variables());
}

TEST(MyTraining, EndsWithTheSameBitsIfMessagesAreLateOrDuplicated) {
  const auto plan = faults{}.delay(0.1).duplicate(0.1);
  EXPECT_SAME_BITS(my_job, {.plan = plan, .seeds = 100});
}
// [doc:end]

// [doc:begin killed]
TEST(MyTraining, NamesTheLostReplica) {
  simulator sim{1};
  random_fault_injector injector{faults{}.kill(replica{2}, at_step{4}), 1};
  const auto strategy = make_strategy(sim, {.replicas = 3}, &injector);
  try {
    my_job(strategy);
    ADD_FAILURE() << "the training did not fail";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::peer_lost);
    EXPECT_NE(std::string{e.what()}.find("replica 2"), std::string::npos)
      << e.what();
  }
  EXPECT_EQ(injector.fired.kills, 1u);
}
// [doc:end]

// [doc:begin processes]
TEST(MyTraining, EndsWithTheSameBitsOverASlowNetwork) {
  EXPECT_SAME_BITS(my_job, {.plan = faults{}.clog(process{1}, at_step{2}, 10),
                            .seeds = 20,
                            .group = {.replicas = 4},
                            .processes = 2,
                            .network = {.latency = 1ms, .bandwidth = 1e8}});
}

TEST(MyTraining, NamesTheDisconnectedProcess) {
  simulator sim{1};
  random_fault_injector injector{faults{}.disconnect(process{1}, at_step{4}),
                                 1};
  const auto strategy =
    make_strategy(sim, {.replicas = 4, .processes = 2}, &injector);
  try {
    my_job(strategy);
    ADD_FAILURE() << "the training did not fail";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::peer_lost);
    EXPECT_NE(std::string{e.what()}.find("process 1"), std::string::npos)
      << e.what();
  }
  EXPECT_EQ(injector.fired.cuts, 1u);
}
// [doc:end]

/// The check finds a job that counts its calls, so that its result depends on
/// the number of earlier runs.
TEST(DeterminismCheck, FindsAJobWhoseResultChanges) {
  int calls = 0;
  const auto found = same_bits(
    [&](const strategy&) {
      return tensors{tensor::full({3}, ++calls < 5 ? 1 : 2)};
    },
    {.seeds = 10});
  EXPECT_FALSE(found.same);
  EXPECT_EQ(found.message, "seed 4: tensor 0, element 0: 2 is not 1");
}

TEST(DeterminismCheck, FindsAJobThatThrows) {
  const auto found = same_bits(
    [](const strategy& s) -> tensors {
      if (s.name() != "one_device")
        throw std::runtime_error("no");
      return {};
    },
    {.first_seed = 7});
  EXPECT_EQ(found.message, "seed 7: the job threw: no");
}

TEST(DeterminismCheck, DistinguishesZeroFromMinusZero) {
  EXPECT_EQ(difference({tensor::of<float>({2}, {1, 0.0f})},
                       {tensor::of<float>({2}, {1, -0.0f})}),
            "tensor 0, element 1: 0 is not -0");
  EXPECT_EQ(difference({tensor::full({2}, 1)}, {tensor::full({2}, 1)}), "");
  EXPECT_EQ(difference({tensor::full({2}, 1)}, {tensor::full({3}, 1)}),
            "tensor 0, float32[2] is not float32[3]");
  EXPECT_EQ(difference({}, {tensor::full({3}, 1)}), "0 tensors, expected 1");
}

} // namespace
