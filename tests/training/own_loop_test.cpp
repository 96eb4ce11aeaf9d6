#include "small_jobs.hpp"
#include "troupe/actors/runtime.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

// What a training loop of one's own is promised.

namespace {

using namespace troupe;

/// The default strategy, replicas that take turns, replicas with threads.
class OwnLoop : public testing::Test {
protected:
  runtime actors;
  const std::vector<strategy> all{
    default_strategy{}, turns(2),
    mirrored_strategy{actors, {"cpu:0", "cpu:1"}}};
};

TEST_F(OwnLoop, DropsOnlyInACallForTraining) {
  const auto images = digits_200().examples(0, 50).inputs;
  for (const auto& on : all) {
    SCOPED_TRACE(on.name());
    const auto scope = on.scope();
    const model it{small_net(/*with_dropout*/ true), sgd{}};
    const auto whole = it.predict(images);
    on.run([&] {
      const tape t;
      const auto trained = it(images, {.training = true});
      EXPECT_FALSE(same_bits(trained, whole));
      EXPECT_FALSE(same_bits(it(images, {.training = true}), trained));
      EXPECT_TRUE(same_bits(it(images), whole));
    });
  }
}

TEST_F(OwnLoop, LeavesEvaluateAndPredictAsTheyWere) {
  const auto test = digits_200().batch(40);
  const auto images = digits_200().examples(0, 50).inputs;
  for (const auto& on : all) {
    SCOPED_TRACE(on.name());
    const auto scope = on.scope();
    model it{small_net(/*with_dropout*/ true), sgd{}};
    const auto loss = it.evaluate(test).loss;
    const auto scores = it.predict(images);
    on.run([&] {
      tape t;
      t.gradient(it(images, {.training = true}), it.variables());
    });
    EXPECT_EQ(it.evaluate(test).loss, loss);
    EXPECT_TRUE(same_bits(it.predict(images), scores));
  }
}

} // namespace
