#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>

// These tests show what a custom training loop can rely on.

namespace {

using namespace troupe;

/// Has the default strategy, a strategy with two replicas in turn, and a
/// strategy with two replicas on threads of their own.
class OwnLoop : public ::testing::Test {
protected:
  runtime actors;
  const std::vector<strategy> strategies{
    default_strategy{}, turns(2),
    mirrored_strategy{actors, {"cpu:0", "cpu:1"}}};
};

TEST_F(OwnLoop, DropoutIsActiveOnlyInTrainingCalls) {
  const auto images = digits_200().examples(0, 50).inputs;
  for (const auto& strategy : strategies) {
    SCOPED_TRACE(strategy.name());
    const auto scope = strategy.scope();
    const model model{small_net(/*with_dropout*/ true), sgd{}};
    const auto whole = model.predict(images);
    strategy.run([&] {
      const tape t;
      const auto trained = model(images, {.training = true});
      EXPECT_FALSE(same_bits(trained, whole));
      EXPECT_FALSE(same_bits(model(images, {.training = true}), trained));
      EXPECT_TRUE(same_bits(model(images), whole));
    });
  }
}

TEST_F(OwnLoop, TrainingCallsDoNotAffectEvaluateAndPredict) {
  const auto test = digits_200().batch(40);
  const auto images = digits_200().examples(0, 50).inputs;
  for (const auto& strategy : strategies) {
    SCOPED_TRACE(strategy.name());
    const auto scope = strategy.scope();
    model model{small_net(/*with_dropout*/ true), sgd{}};
    const auto loss = model.evaluate(test).loss;
    const auto scores = model.predict(images);
    strategy.run([&] {
      tape t;
      t.gradient(model(images, {.training = true}), model.variables());
    });
    EXPECT_EQ(model.evaluate(test).loss, loss);
    EXPECT_TRUE(same_bits(model.predict(images), scores));
  }
}

/// Applies dropout with rate 0.5 to rows of 1,000 ones and returns the sum of
/// each row. Each replica makes two steps, each with two rows. The sums are
/// ordered by step, then by replica, then by row.
std::vector<float> left_after_dropout(const strategy& strategy,
                                      std::uint64_t seed) {
  models::dense count{1};
  count.kernel_initializer = initializer{"ones"};
  const auto scope = strategy.scope();
  const model model{
    {"count", {1'000}, models::stack(models::dropout{0.5}, count)},
    sgd{},
    {.seed = seed}};
  std::vector<float> left;
  for (int step = 0; step < 2; ++step)
    for (const auto& one : strategy.run([&] {
           return model(tensor::full({2, 1'000}, 1), {.training = true});
         }))
      left.insert(left.end(), one.data<float>().begin(),
                  one.data<float>().end());
  return left;
}

TEST_F(OwnLoop, DropoutDependsOnSeedReplicaAndRun) {
  const auto two = left_after_dropout(turns(2), 1);
  EXPECT_EQ(two, left_after_dropout(turns(2), 1));
  EXPECT_NE(two, left_after_dropout(turns(2), 2));
  const auto left_on_replica = [&](int step, int replica) {
    const auto begin = two.begin() + 4 * step + 2 * replica;
    return std::vector<float>(begin, begin + 2);
  };
  EXPECT_NE(left_on_replica(0, 0), left_on_replica(0, 1));
  EXPECT_NE(left_on_replica(0, 0), left_on_replica(1, 0));
  EXPECT_EQ(
    two, left_after_dropout(mirrored_strategy{actors, {"cpu:0", "cpu:1"}}, 1));
}

TEST_F(OwnLoop, PredictsWhileATapeRecords) {
  model model{small_net(), sgd{}};
  const auto images = digits_200().examples(0, 50).inputs;
  const auto scores = model.predict(images);
  tape t;
  const auto under_it = model.predict(images);
  EXPECT_TRUE(same_bits(under_it, scores));
  EXPECT_FALSE(is_recorded(under_it));
  const auto watched = t.watch(images);
  EXPECT_THROW(model.predict(watched), std::logic_error);
  EXPECT_TRUE(same_bits(model.predict(watched.detach()), scores));
}

TEST_F(OwnLoop, PredictionsAreNotRecorded) {
  model it{small_net(), sgd{}};
  const tape t;
  (void)it.predict(digits_200().examples(0, 200).inputs);
  (void)it.predict(digits_200().batch(50).prefetch(0));
  // No tape needs the elements, so a write is allowed.
  for (const auto& one : it.variables())
    EXPECT_NO_THROW(one.value().mutable_data<float>());
  EXPECT_EQ(tape::recording(), &t);
}

/// Returns eight examples of the line y = 2 x, all of them integers.
batch line() {
  return {tensor::of<float>({8, 1}, {1, -2, 3, 4, -5, 6, 7, -8}),
          tensor::of<float>({8, 1}, {2, -4, 6, 8, -10, 12, 14, -16}), 8};
}

/// Returns a replica's part of the line. Of two replicas, replica 0 has `first`
/// rows.
batch part_of_line(const replica_context& self, std::int64_t first) {
  const auto count = self.num_replicas_in_sync() == 1 ? 8 : first;
  return select_rows(line(), self.replica_id() == 0 ? row_range{0, count}
                                                    : row_range{count, 8});
}

/// Returns a model of one weight and one bias, which are 0 at first.
models::model_description linear_model() {
  models::dense layer{1};
  layer.kernel_initializer = initializer{"zeros"};
  return {"straight", {1}, models::stack(layer)};
}

/// Makes one training step on the line in micro-batches. Returns the hash of
/// the weights.
/// @param first number of rows of replica 0, if there are two replicas.
std::string weights_after_a_step(const strategy& strategy, std::int64_t first,
                                 std::int64_t micro_batch) {
  const auto scope = strategy.scope();
  model model{linear_model(), sgd{}};
  optimizer optimizer{sgd{.learning_rate = 0.25f}};
  const auto loss_of = [&](const tensor& inputs, const tensor& targets) {
    return models::mean_squared_error(model(inputs, {.training = true}),
                                      targets);
  };
  strategy.run([&](replica_context& replica) {
    const auto batch = part_of_line(replica, first);
    const auto rows = batch.inputs.dims().front();
    // [doc:begin accumulate]
    troupe::tensors sums;
    for (const auto& variable : model.variables())
      sums.push_back(troupe::tensor::zeros(variable.dims()));
    for (std::int64_t row = 0; row < rows; row += micro_batch) {
      const auto end = std::min(row + micro_batch, rows);
      troupe::tape tape; // one for each loss
      const auto losses =
        loss_of(batch.inputs.slice(row, end), batch.labels.slice(row, end));
      const auto gradients =
        tape.gradient(losses / batch.global_rows, model.variables());
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] = sums[i] + gradients[i];
    }
    optimizer.apply(replica.all_reduce(troupe::sum, sums), model.variables());
    // [doc:end]
  });
  strategy.run([&] {
    // The gradient of the weight is the mean of 2 (0 - y) x. With y = 2 x this
    // is -4 * 204 / 8, where 204 is the sum of x^2. The gradient of the bias is
    // the mean of 2 (0 - y): -3. The step subtracts 0.25 times the gradients.
    EXPECT_EQ(model.variables()[0].value().item<float>(), 25.5f);
    EXPECT_EQ(model.variables()[1].value().item<float>(), 0.75f);
  });
  return model.weights_sha256();
}

TEST_F(OwnLoop, AccumulatesTheGradientsOfMicroBatches) {
  for (const auto& strategy : strategies) {
    SCOPED_TRACE(strategy.name());
    const auto at_once = weights_after_a_step(strategy, 8, 8);
    for (const std::int64_t first : {8, 7, 4, 0})
      for (const std::int64_t micro_batch : {4, 3, 2})
        EXPECT_EQ(weights_after_a_step(strategy, first, micro_batch), at_once)
          << first << " rows by " << micro_batch;
  }
}

TEST_F(OwnLoop, RecordedValuesAreRejectedByCollectives) {
  parameters params{{{"w", {2}}}};
  auto& self = *get_replica_context();
  tape t;
  const auto recorded = params.variables()[0].value() * 2.0;
  const std::vector<tensor> values_by_replica{tensor::zeros({2}), recorded};
  EXPECT_THROW(self.all_reduce(sum, recorded), std::logic_error);
  EXPECT_THROW(self.all_gather(recorded), std::logic_error);
  EXPECT_THROW(self.broadcast(recorded), std::logic_error);
  EXPECT_THROW(reduce(mean, values_by_replica), std::logic_error);
  EXPECT_THROW(reduce(sum, values_by_replica, {0}), std::logic_error);
  EXPECT_THROW(concatenate(values_by_replica, 0), std::logic_error);
  EXPECT_THROW(default_strategy{}.gather(per_replica<tensor>{{recorded}}, 0),
               std::logic_error);
  t.gradient(recorded, params.variables());
  // The tape has been used, so it does not track `recorded` any more.
  EXPECT_TRUE(same_bits(self.all_reduce(sum, recorded), recorded));
}

} // namespace
