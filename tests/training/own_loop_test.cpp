#include "small_jobs.hpp"
#include "troupe/actors/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
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

TEST_F(OwnLoop, PredictsWhileATapeRecords) {
  model it{small_net(), sgd{}};
  const auto images = digits_200().examples(0, 50).inputs;
  const auto scores = it.predict(images);
  tape t;
  const auto under_it = it.predict(images);
  EXPECT_TRUE(same_bits(under_it, scores));
  EXPECT_FALSE(is_recorded(under_it));
  const auto watched = t.watch(images);
  EXPECT_THROW(it.predict(watched), std::logic_error);
  EXPECT_TRUE(same_bits(it.predict(watched.detach()), scores));
}

TEST_F(OwnLoop, ExchangesNoValueThatATapeRecords) {
  parameters own{{{"w", {2}}}};
  auto& self = *get_replica_context();
  tape t;
  const auto y = own.variables()[0].value() * 2.0;
  const std::vector<tensor> parts{tensor::zeros({2}), y};
  EXPECT_THROW(self.all_reduce(sum, y), std::logic_error);
  EXPECT_THROW(self.all_gather(y), std::logic_error);
  EXPECT_THROW(reduce(mean, parts), std::logic_error);
  EXPECT_THROW(reduce(sum, parts, {0}), std::logic_error);
  EXPECT_THROW(concatenate(parts, 0), std::logic_error);
  EXPECT_THROW(default_strategy{}.gather(per_replica<tensor>{{y}}, 0),
               std::logic_error);
  t.gradient(y, own.variables());
  EXPECT_TRUE(same_bits(self.all_reduce(sum, y), y)); // asked: a number
}

} // namespace
