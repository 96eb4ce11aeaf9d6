#include "card.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <cmath>
#include <filesystem>
#include <limits>

namespace {

using namespace troupe;
using namespace troupe::test;

one_device_strategy on_the_card(std::uint32_t replicas) {
  return one_device_strategy{"gpu:0", {.replicas = replicas}};
}

const data::dataset& digits_2000() {
  static const auto all = data::digits({.examples = 2000, .seed = 5});
  return all;
}

struct trained {
  std::string weights;
  double loss = 0, accuracy = 0;
};

/// Trains for two epochs with batches of 64.
trained train(const strategy& where, const std::string& name,
              models::precision precision = models::precision::float32) {
  const auto scope = where.scope();
  model it{models::find_model(name),
           name == "mlp"
             ? update_rule{sgd{.learning_rate = 0.05f, .momentum = 0.9f}}
             : update_rule{adam{}},
           {.precision = precision}};
  it.fit(digits_2000().shuffle(2000, 1).batch(64), {.epochs = 2});
  const auto result = it.evaluate(digits_2000().batch(100));
  return {it.weights_sha256(), result.loss, result.accuracy};
}

TEST_F(OnACard, TrainingHasTheSameBitsInEveryRun) {
  for (const char* name : {"mlp", "lenet"})
    for (const std::uint32_t replicas : {1, 2}) {
      SCOPED_TRACE(std::string{name} + ", " + std::to_string(replicas));
      const auto one = train(on_the_card(replicas), name),
                 other = train(on_the_card(replicas), name);
      EXPECT_EQ(one.weights, other.weights);
      EXPECT_EQ(one.loss, other.loss);
      EXPECT_GT(one.accuracy, 0.7);
    }
}

TEST_F(OnACard, MirroredAndOneDeviceHaveTheSameBits) {
  runtime actors;
  const mirrored_strategy mirrored{actors, {"gpu:0"}};
  for (const char* name : {"mlp", "lenet"})
    EXPECT_EQ(train(mirrored, name).weights,
              train(on_the_card(1), name).weights)
      << name;
}

/// Products have other bits than on the CPU, but training arrives at the same
/// place.
TEST_F(OnACard, TrainingIsThatOfTheCpu) {
  const auto there = train(on_the_card(2), "mlp"),
             here = train(turns(2), "mlp");
  EXPECT_NEAR(there.accuracy, here.accuracy, 0.01);
  EXPECT_NEAR(there.loss, here.loss, 0.02);
}

TEST_F(OnACard, TrainingInBfloat16ReachesTheAccuracyOfFloat32) {
  for (const char* name : {"mlp", "lenet"}) {
    const auto narrow = train(on_the_card(1), name, models::precision::bf16),
               wide = train(on_the_card(1), name);
    EXPECT_NEAR(narrow.accuracy, wide.accuracy, 0.02) << name;
    EXPECT_EQ(narrow.weights,
              train(on_the_card(1), name, models::precision::bf16).weights);
  }
}

TEST_F(OnACard, TrainingInTf32ReachesTheAccuracyOfFloat32) {
  const auto rounded = train(on_the_card(1), "lenet", models::precision::tf32),
             exact = train(on_the_card(1), "lenet");
  EXPECT_NEAR(rounded.accuracy, exact.accuracy, 0.02);
  EXPECT_NE(rounded.weights, exact.weights);
}

TEST_F(OnACard, ASavedModelGoesOnOnTheCpu) {
  const auto file = std::filesystem::path{::testing::TempDir()} / "card.troupe";
  tensor scores;
  std::string weights;
  const auto inputs = tensor::full({5, 28, 28, 1}, 0.5);
  {
    const auto where = on_the_card(1);
    const auto scope = where.scope();
    model it{small_net(), adam{}};
    it.fit(digits_200().batch(20));
    it.save(file);
    scores = it.predict(inputs);
    weights = it.weights_sha256();
  }
  auto loaded = model::load(file);
  EXPECT_EQ(loaded.weights_sha256(), weights);
  const auto here = loaded.predict(inputs);
  const auto there = scores.to({});
  for (std::size_t i = 0; i < here.size(); ++i)
    EXPECT_NEAR(there.data<float>()[i], here.data<float>()[i], 1e-4);
  loaded.fit(digits_200().batch(20));
  std::filesystem::remove(file);
}

/// The difference between two fits leaves out what begins and ends a fit.
TEST_F(OnACard, ASteadyStepWaitsOnce) {
  for (const std::uint32_t replicas : {1, 2}) {
    const auto where = on_the_card(replicas);
    const auto scope = where.scope();
    model it{models::lenet(), adam{}};
    const auto waits_of = [&](std::uint64_t epochs) {
      const auto before = cuda::synchronizations();
      it.fit(digits_2000().shuffle(2000, 1).batch(64), {.epochs = epochs});
      return cuda::synchronizations() - before;
    };
    waits_of(1); // makes the engines of cuDNN
    const auto one = waits_of(1), three = waits_of(3);
    EXPECT_EQ(three - one, 2 * 32u) << replicas << " replicas, 32 batches";
  }
}

TEST_F(OnACard, BatchesThatAreCopiedAheadHaveTheSameBits) {
  const auto hash_with = [](const std::string& name, std::uint32_t replicas,
                            std::size_t prefetch, bool are_on_the_card) {
    const auto where = on_the_card(replicas);
    const auto scope = where.scope();
    model it{models::find_model(name), adam{}};
    auto rows = digits_2000().shuffle(2000, 1).batch(64);
    if (are_on_the_card)
      rows = rows.map([](batch x) {
        x.inputs = x.inputs.to(card);
        return x;
      });
    it.fit(rows, {.epochs = 2, .prefetch = prefetch});
    return it.weights_sha256();
  };
  for (const char* name : {"mlp", "lenet"})
    for (const std::uint32_t replicas : {1, 2}) {
      SCOPED_TRACE(std::string{name} + ", " + std::to_string(replicas));
      const auto want = hash_with(name, replicas, 0, false);
      EXPECT_EQ(hash_with(name, replicas, 2, false), want);
      EXPECT_EQ(hash_with(name, replicas, 2, true), want);
    }
}

/// Five batches of 100 digits. Batch `bad` is left out, or has an infinite
/// pixel.
data::dataset with_bad_batch(std::size_t bad, bool is_left_out) {
  const auto all = digits_2000().examples(0, 500);
  auto inputs = all.inputs.clone();
  if (!is_left_out)
    inputs.mutable_data<float>()[784 * 100 * bad] =
      std::numeric_limits<float>::infinity();
  const data::dataset rows{inputs, all.labels, 10};
  const auto split = rows.batch(100);
  if (!is_left_out)
    return split;
  return data::dataset{4, 10, [split, bad](std::uint64_t i) {
                         auto at = split.iterate({0, i < bad ? i : i + 1});
                         return *at.next();
                       }};
}

/// SGD does not depend on the number of the step.
TEST_F(OnACard, AStepThatIsNotFiniteIsSkipped) {
  for (const char* name : {"mlp", "lenet"})
    for (const std::uint32_t replicas : {1, 2}) {
      SCOPED_TRACE(std::string{name} + ", " + std::to_string(replicas));
      const auto where = on_the_card(replicas);
      const auto scope = where.scope();
      const sgd rule{.learning_rate = 0.05f, .momentum = 0.9f};
      model it{models::find_model(name), rule},
        other{models::find_model(name), rule};
      std::vector<bool> skipped;
      fit_options options{.epochs = 2, .on_nan = on_nan::skip};
      options.callbacks = {{.on_step = [&](const step_record& x) {
        skipped.push_back(x.skipped);
      }}};
      it.fit(with_bad_batch(2, false), options);
      other.fit(with_bad_batch(2, true), {.epochs = 2});
      EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
      const std::vector<bool> each{false, false, true, false, false};
      auto want = each;
      want.insert(want.end(), each.begin(), each.end());
      EXPECT_EQ(skipped, want);
    }
}

TEST_F(OnACard, AStepThatIsNotFiniteStopsWithTheWeightsBefore) {
  const auto where = on_the_card(1);
  const auto scope = where.scope();
  model it{models::mlp(), adam{}}, other{models::mlp(), adam{}};
  EXPECT_NE(error_of([&] {
              it.fit(with_bad_batch(2, false));
            }).find(" was not finite at step 2;"),
            std::string::npos);
  other.fit(with_bad_batch(2, false), {.max_steps = 2});
  EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
}

TEST_F(OnACard, AStepWithAnInvalidLabelMakesNoUpdate) {
  const auto where = on_the_card(1);
  const auto scope = where.scope();
  model it{models::mlp(), adam{}};
  const auto before = it.weights_sha256();
  const auto bad = digits_2000().batch(100).map([](batch x) {
    x.labels = x.labels.clone();
    x.labels.mutable_data<std::int32_t>()[7] = 12;
    return x;
  });
  EXPECT_EQ(error_of([&] { it.fit(bad); }),
            "label 12 in row 7; there are 10 classes, from 0");
  EXPECT_EQ(it.weights_sha256(), before);
  it.fit(digits_2000().batch(100));
  EXPECT_NE(it.weights_sha256(), before);
}

TEST_F(OnACard, ALoopOfOnesOwnTrains) {
  const auto where = on_the_card(2);
  const auto scope = where.scope();
  model it{small_net(true), sgd{.learning_rate = 0.1f}};
  const auto batches = where.distribute(digits_200().batch(20));
  std::vector<double> losses;
  for (int epoch = 0; epoch < 20; ++epoch)
    for (const auto& global : batches) {
      const auto loss = where.run(
        [&](replica_context& self, const batch& rows) {
          tape recording;
          const auto scores = it(rows.inputs, {.training = true});
          auto mine = reduce_sum(softmax_cross_entropy(scores, rows.labels))
                      / double(rows.global_rows);
          const auto found = recording.gradient(mine, it.variables());
          it.optimizer().apply(self.all_reduce(reduce_op::sum, found),
                               it.variables());
          return mine;
        },
        global);
      losses.push_back(where.reduce(reduce_op::sum, loss).item<float>());
    }
  EXPECT_LT(losses.back(), 0.7 * losses.front());
}

} // namespace
