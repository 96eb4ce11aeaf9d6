#include "small_jobs.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/training/support/sha256.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

TEST(Model, LearnsDigitsOnOneDevice) {
  const auto [train, test] = data::digits({.examples = 4000}).split(0.8);
  const one_device_strategy strategy{"cpu:0"};
  const auto scope = strategy.scope();
  model it{models::mlp(), adam{}};
  const auto seen = it.fit(train.shuffle().batch(64),
                           {.epochs = 3, .validation = test.batch(256)});
  EXPECT_GT(seen.last().validation_accuracy, 0.88);
  EXPECT_GT(seen.last().accuracy, seen.epochs.front().accuracy);
}

TEST(Model, EvaluateAgreesWithPredict) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    model it{small_net(), adam{}};
    const auto whole_batch = digits_200().examples(0, 200);
    const auto scores = it.predict(whole_batch.inputs);
    const auto found = it.evaluate(digits_200().batch(48));
    EXPECT_EQ(found.examples, 200u);
    EXPECT_EQ(found.accuracy * 200,
              static_cast<double>(models::correct(scores, whole_batch.labels)));
    const auto loss =
      models::total(models::cross_entropy(scores, whole_batch.labels)) / 200;
    EXPECT_NEAR(found.loss, loss, 1e-6);
  }
}

TEST(Model, PredictionIsIndependentOfBatching) {
  model it{small_net(), adam{}};
  const auto all = digits_200().examples(0, 200);
  EXPECT_EQ(it.predict(all.inputs).dims(), (shape{200, 10}));
  const auto batched = it.predict(digits_200().batch(64));
  const auto whole = it.predict(all.inputs);
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_NEAR(batched.data<float>()[i], whole.data<float>()[i], 1e-5);
}

TEST(Model, EmptyInputGivesEmptyPrediction) {
  model it{small_net(), adam{}};
  EXPECT_EQ(it.predict(tensor{shape{0, 28, 28, 1}}).dims(), (shape{0, 10}));
}

TEST(Model, HashesItsParametersInOrderWithoutGaps) {
  model it{small_net(), adam{}};
  sha256 hash;
  for (const auto& x : it.variables())
    hash.add(std::as_bytes(x.value().data<float>()));
  EXPECT_EQ(it.weights_sha256(), to_hex(hash.finish()));
}

TEST(Model, InitialWeightsAreEqualInEveryStrategy) {
  const auto begun = [](std::uint32_t replicas) {
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    return model{small_net(), adam{}, {.seed = 9}}.weights_sha256();
  };
  EXPECT_EQ(begun(1), begun(3));
}

TEST(Model, BelongsToTheStrategyOfItsScope) {
  const auto two = turns(2);
  const auto inside = [&] {
    const auto scope = two.scope();
    return model{small_net(), adam{}};
  }();
  EXPECT_EQ(inside.made_in(), two);
  EXPECT_EQ(model(small_net(), adam{}).made_in(), default_strategy{});
}

TEST(Model, ConstructionInAReplicaFunctionIsRejected) {
  EXPECT_THROW(turns(2).run([] { model(small_net(), adam{}); }),
               std::logic_error);
}

TEST(Model, UnknownLossIsRejected) {
  EXPECT_THROW(model(small_net(), adam{}, {.loss = "hinge"}),
               std::invalid_argument);
}

} // namespace
