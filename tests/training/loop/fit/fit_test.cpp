#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

// The mistakes S0 to S9 are listed in
// tests/training/loop/fit/new_user_results_test.cpp.

namespace {

using namespace troupe;

model small_model(const update_rule& rule = adam{}, bool with_dropout = false) {
  return model{small_net(with_dropout), rule, {.seed = 5}};
}

/// Returns the hash of the weights after a fit on a number of replicas.
std::string weights_after(std::uint32_t replicas, const data::dataset& batches,
                          const fit_options& options = {}) {
  const auto strategy = turns(replicas);
  const auto scope = strategy.scope();
  auto it = small_model(adam{}, true);
  it.fit(batches, options);
  return it.weights_sha256();
}

std::string sentence(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(Fit, RepeatedRunsAreBitwiseEqual) {
  const auto batches = digits_200().shuffle().batch(16);
  for (const std::uint32_t replicas : {1, 2, 3})
    EXPECT_EQ(weights_after(replicas, batches, {.epochs = 2}),
              weights_after(replicas, batches, {.epochs = 2}));
}

TEST(Fit, ContinuesWithTheNextEpochOfTheDataByDefault) {
  const auto batches = digits_200().shuffle().batch(16);
  const auto after = [&](const std::vector<fit_options>& fits) {
    auto it = small_model();
    for (const auto& one : fits)
      it.fit(batches, one);
    return it.weights_sha256();
  };
  const auto three = after({{.epochs = 3}});
  EXPECT_EQ(after({{}, {}, {}}), three);
  EXPECT_EQ(after({{.epochs = 2}, {}}), three);
  EXPECT_EQ(after({{.first_epoch = 0}, {.first_epoch = 1}, {}}), three);
  EXPECT_NE(after({{.epochs = 2}, {.first_epoch = 0}}), three);
  EXPECT_NE(after({{.epochs = 3, .first_epoch = 1}}), three);
  // After an interrupted fit, a fit without `resume` begins with the next
  // epoch.
  EXPECT_EQ(after({{.max_steps = 5}, {}}),
            after({{.max_steps = 5}, {.first_epoch = 1}}));
}

TEST(Fit, WeightsDependOnTheSeedOnly) {
  const auto once = [](std::uint64_t seed) {
    model it{small_net(true), adam{}, {.seed = seed}};
    it.fit(digits_200().batch(16));
    return it.weights_sha256();
  };
  EXPECT_EQ(once(1), once(1));
  EXPECT_NE(once(1), once(2));
}

/// Returns the weights after one step of gradient descent on all examples of a
/// batch.
std::vector<tensor> stepped_by_hand(const batch& global, float rate) {
  const auto model = small_model(sgd{});
  tape t;
  const auto losses =
    models::cross_entropy(model(global.inputs), global.labels);
  const auto gradients = t.gradient(losses, model.variables());
  std::vector<tensor> out;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    out.push_back(model.variables()[i].value().clone());
    const auto to = out.back().mutable_data<float>();
    const auto g = gradients[i].data<float>();
    for (std::size_t k = 0; k < to.size(); ++k)
      to[k] -= rate * g[k] / static_cast<float>(global.labels.size());
  }
  return out;
}

TEST(Fit, GradientIsTheSumOverAllReplicasDividedByAllExamples) {
  // With 2 rows over 3 replicas, or 1 row over 2, one replica has no example.
  for (const auto& [rows, replicas] :
       {std::pair{7, 3u}, std::pair{2, 3u}, std::pair{1, 2u}}) {
    SCOPED_TRACE(std::to_string(rows) + " over " + std::to_string(replicas));
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    auto model = small_model(sgd{.learning_rate = 0.5f});
    // `fit` requires a batch size of at least the number of replicas, so a
    // first batch of 20 comes before the batch under test. The first batch has
    // no effect, because the learning rate of its step is 1e-30.
    const auto examples = digits_200().take(20 + std::uint64_t(rows));
    const auto batches = examples.batch(20);
    const auto last = examples.examples(20, 20 + std::uint64_t(rows));
    model.fit(batches,
              {.schedule = step_schedule{
                 .learning_rate = 1e-30f, .factor = 0.5e30f, .every = 1}});
    const auto expected = stepped_by_hand(last, 0.5f);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto a = model.variables()[i].value().data<float>();
      const auto b = expected[i].data<float>();
      for (std::size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(a[k], b[k], 2e-6)
          << model.variables()[i].name() << " " << k;
    }
  }
}

// The oracle computes the mean over the whole batch at once.
TEST(Fit, TheGradientOfUnequalPartsIsTheMeanOverAllExamples) {
  for (const auto& shares :
       std::vector<std::vector<std::uint32_t>>{{3, 1}, {1, 5}, {1, 2, 1}}) {
    const auto strategy = turns(std::uint32_t(shares.size()));
    const auto scope = strategy.scope();
    auto model = small_model(sgd{.learning_rate = 0.5f});
    const auto examples = digits_200().take(7);
    model.fit(examples.batch(7), {.replica_shares = shares});
    const auto expected = stepped_by_hand(examples.examples(0, 7), 0.5f);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto a = model.variables()[i].value().data<float>();
      const auto b = expected[i].data<float>();
      for (std::size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(a[k], b[k], 2e-6) << model.variables()[i].name() << " " << k
                                      << ", replica 0 has share " << shares[0];
    }
  }
}

// The network has a dropout, so its weights depend on the division.
TEST(Fit, DividesEachBatchByTheReplicaShares) {
  const auto batches = digits_200().shuffle().batch(16);
  const auto equal = weights_after(2, batches);
  const auto unequal = weights_after(2, batches, {.replica_shares = {3, 1}});
  EXPECT_NE(unequal, equal);
  EXPECT_EQ(weights_after(2, batches, {.replica_shares = {5, 5}}), equal);
  EXPECT_EQ(weights_after(2, batches, {.replica_shares = {6, 2}}), unequal);
  runtime actors;
  const mirrored_strategy mirrored{actors, {"cpu:0", "cpu:1"}};
  const auto scope = mirrored.scope();
  auto it = small_model(adam{}, true);
  it.fit(batches, {.replica_shares = {3, 1}});
  EXPECT_EQ(it.weights_sha256(), unequal);
}

TEST(Fit, ReportsMeansOverTheExamplesOfTheEpoch) {
  auto it = small_model(sgd{.learning_rate = 1e-30f});
  const auto before = it.evaluate(digits_200().batch(64));
  const auto seen = it.fit(digits_200().batch(48)).last();
  EXPECT_EQ(seen.examples, 200u);
  EXPECT_EQ(seen.steps, 5u);
  EXPECT_NEAR(seen.loss, before.loss, 1e-6);
  EXPECT_EQ(seen.accuracy, before.accuracy);
}

TEST(Fit, CallbacksRunForEachStepAndEpochInOrder) {
  std::string calls;
  fit_options options{.epochs = 2};
  options.callbacks.push_back(
    {.on_epoch_end =
       [&](const epoch_record& x) { calls += "e" + std::to_string(x.epoch); },
     .on_step =
       [&](const step_record& x) { calls += "s" + std::to_string(x.step); }});
  auto it = small_model();
  it.fit(digits_200().batch(100), options);
  EXPECT_EQ(calls, "s0s1e1s2s3e2");
}

/// Calls `fn(model)` in the callback of each step, and returns its error. A fit
/// on several threads goes on meanwhile.
std::string error_in_on_step(const strategy& on,
                             const std::function<void(model&)>& fn) {
  const auto scope = on.scope();
  auto it = small_model();
  std::string error = "not called";
  fit_options how;
  how.callbacks.push_back({.on_step = [&](const step_record&) {
    error = sentence([&] { fn(it); });
  }});
  it.fit(digits_200().batch(16), how);
  return error;
}

/// What a program may try in `on_step`, and its name in the error.
std::vector<std::pair<std::string, std::function<void(model&)>>>
accesses_to_a_model(const std::filesystem::path& file) {
  const auto batches = digits_200().batch(16);
  return {
    {"save", [=](model& it) { it.save(file); }},
    {"save_after_failure", [=](model& it) { it.save_after_failure(file); }},
    {"evaluate", [=](model& it) { it.evaluate(batches); }},
    {"weights_sha256", [](model& it) { it.weights_sha256(); }},
    {"predict", [=](model& it) { it.predict(batches); }},
    {"the model",
     [](model& it) {
       it(tensor::zeros({1, 28, 28, 1}));
     }},
    {"set_learning_rate",
     [](model& it) { it.optimizer().set_learning_rate(0.5f); }},
    {"fit", [=](model& it) { it.fit(batches); }},
    {"run", [](model& it) { it.made_in().run([] {}); }},
  };
}

class NewUserCallbacks : public scratch_test {};

TEST_F(NewUserCallbacks, S0SaveInOnStepIsRefused) {
  const std::vector<device> devices(2);
  runtime actors;
  const mirrored_strategy threads{actors, {"cpu:0", "cpu:1"}};
  for (const auto& [name, access] : accesses_to_a_model(folder / "model"))
    for (const auto& on :
         {strategy{threads}, strategy{turns(2)}, strategy{default_strategy{}}})
      EXPECT_EQ(
        error_in_on_step(on, access),
        name
          + " was called in callback::on_step, while later steps of the "
            "fit may change the model; call it in on_epoch_end, or "
            "after fit")
        << on.name();
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(NewUserCallbacks, S0OnStepMayReadAnotherModelAndTheNumberOfSteps) {
  runtime actors;
  const mirrored_strategy on{actors, {"cpu:0", "cpu:1"}};
  const auto scope = on.scope();
  auto other = small_model();
  std::uint64_t next = 0;
  EXPECT_EQ(error_in_on_step(on,
                             [&](model& it) {
                               other.predict(digits_200().batch(50));
                               other.weights_sha256();
                               EXPECT_EQ(it.steps(), ++next);
                             }),
            "no error");
}

TEST_F(NewUserCallbacks, S0OnEpochEndMaySaveAndRead) {
  runtime actors;
  const mirrored_strategy on{actors, {"cpu:0", "cpu:1"}};
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how{.epochs = 2};
  how.callbacks.push_back({.on_epoch_end = [&](const epoch_record&) {
    it.save(folder / "model");
    it.evaluate(digits_200().batch(16));
    EXPECT_EQ(model::load(folder / "model").weights_sha256(),
              it.weights_sha256());
    it.optimizer().set_learning_rate(0.002f);
  }});
  it.fit(digits_200().batch(16), how);
}

/// The thread of `predict` only reads. Another thread cannot save or hash.
TEST_F(NewUserCallbacks, S0AnotherThreadMayOnlyPredictWhileStepsRun) {
  runtime actors;
  const mirrored_strategy on{actors, {"cpu:0", "cpu:1"}};
  const auto weights = [&](const callback& each) {
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how;
    how.callbacks.push_back(each);
    it.fit(digits_200().batch(16), how);
    return it.weights_sha256();
  };
  const auto expected = weights({});
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how;
  how.callbacks.push_back({.on_step = [&](const step_record&) {
    std::thread{[&] {
      EXPECT_NE(sentence([&] {
                  it.save(folder / "model");
                }).find("while another thread runs steps of a fit"),
                std::string::npos);
      EXPECT_NE(sentence([&] {
                  it.weights_sha256();
                }).find("while another thread runs steps of a fit"),
                std::string::npos);
    }}.join();
  }});
  it.fit(digits_200().batch(16), how);
  EXPECT_EQ(it.weights_sha256(), expected);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

/// It reads what the updates write, so its outputs may mix several steps.
TEST(Fit, IsNotChangedByPredictionsOfAnotherThread) {
  if (test::has_thread_sanitizer)
    GTEST_SKIP() << "a sanitizer of threads would report that";
  runtime actors;
  const mirrored_strategy on{actors, {"cpu:0", "cpu:1"}};
  const auto scope = on.scope();
  const auto batches = digits_200().batch(16);
  auto undisturbed = small_model();
  undisturbed.fit(batches, {.epochs = 3});
  auto it = small_model();
  std::atomic<bool> has_ended = false;
  std::uint64_t calls = 0, not_finite = 0;
  std::thread reader{[&] {
    while (!has_ended || calls == 0) {
      const auto out = it.predict(digits_200().batch(50));
      for (const auto x : out.data<float>())
        not_finite += !std::isfinite(x);
      ++calls;
    }
  }};
  it.fit(batches, {.epochs = 3});
  has_ended = true;
  reader.join();
  EXPECT_EQ(it.weights_sha256(), undisturbed.weights_sha256());
  EXPECT_GT(calls, 0u);
  EXPECT_EQ(not_finite, 0u);
}

TEST(Fit, EarlyStoppingRestoresTheBestWeights) {
  // With this `min_delta` no change counts as an improvement, so the first
  // epoch remains the best.
  const early_stopping early{
    .monitor = monitored_metric::loss, .patience = 2, .min_delta = 1e9};
  const auto batches = digits_200().batch(50);
  auto model = small_model();
  const auto seen = model.fit(batches, {.epochs = 9, .early_stopping = early});
  EXPECT_EQ(seen.end, fit_end::stopped_early);
  EXPECT_EQ(seen.epochs.size(), 3u);
  EXPECT_EQ(seen.best_epoch, 1u);
  auto one_epoch = small_model();
  one_epoch.fit(batches);
  EXPECT_EQ(model.weights_sha256(), one_epoch.weights_sha256());
}

TEST(Fit, EarlyStoppingContinuesWhileTheMetricImproves) {
  auto it = small_model();
  const auto seen =
    it.fit(digits_200().batch(50),
           {.epochs = 4,
            .early_stopping = early_stopping{.monitor = monitored_metric::loss,
                                             .patience = 1}});
  EXPECT_EQ(seen.end, fit_end::done);
  EXPECT_EQ(seen.epochs.size(), 4u);
}

TEST(Fit, LearningRateFollowsTheSchedule) {
  const auto rate_after = [](std::uint64_t epochs) {
    auto it = small_model();
    return it
      .fit(digits_200().batch(50),
           {.epochs = epochs,
            .schedule =
              step_schedule{.learning_rate = 0.1f, .factor = 0.5f, .every = 4}})
      .last()
      .learning_rate;
  };
  EXPECT_FLOAT_EQ(static_cast<float>(rate_after(1)), 0.1f);
  EXPECT_FLOAT_EQ(static_cast<float>(rate_after(3)), 0.025f);
}

/// Returns 200 examples. If they are batched by 20, the first pixel of batch
/// number `bad` is infinite.
data::dataset with_nan_in_batch(std::uint64_t bad) {
  const auto all = digits_200();
  return {200, 10, [all, bad](std::uint64_t i) {
            auto changed = all.examples(i, i + 1);
            auto inputs =
              changed.inputs.reshaped(changed.inputs.dims().axes(1, 4)).clone();
            if (i == bad * 20)
              inputs.mutable_data<float>()[0] =
                std::numeric_limits<float>::infinity();
            return batch{inputs, changed.labels.reshaped({})};
          }};
}

TEST(Fit, NonFiniteLossStopsWithThePreviousWeights) {
  for (const std::uint32_t replicas : {1, 2, 3}) {
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    auto model = small_model();
    const auto said =
      sentence([&] { model.fit(with_nan_in_batch(4).batch(20)); });
    EXPECT_NE(said.find("the loss was not finite at step 4;"), said.npos)
      << said;
    auto good = small_model();
    good.fit(digits_200().batch(20), {.max_steps = 4});
    EXPECT_EQ(model.weights_sha256(), good.weights_sha256());
    EXPECT_EQ(model.steps(), 4u);
  }
}

/// Returns batches of 20. In batch 4 the first pixel of each image is very
/// large: the losses are finite, but the sum of their gradients overflows.
data::dataset with_overflow() {
  auto all = digits_200().examples(0, 200);
  auto inputs = all.inputs.clone();
  for (std::size_t i = 80; i < 100; ++i)
    inputs.mutable_data<float>()[784 * i] = 3e38f;
  return data::dataset{inputs, all.labels, 10}.batch(20);
}

TEST(Fit, NonFiniteGradientStopsWithThePreviousWeights) {
  for (const std::uint32_t replicas : {1, 2, 3}) {
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    auto model = small_model();
    const auto said = sentence([&] { model.fit(with_overflow()); });
    EXPECT_NE(said.find("a gradient was not finite at step 4;"), said.npos)
      << said;
    auto good = small_model();
    good.fit(digits_200().batch(20), {.max_steps = 4});
    EXPECT_EQ(model.weights_sha256(), good.weights_sha256());
    EXPECT_EQ(model.steps(), 4u);
    auto skipping = small_model();
    skipping.fit(with_overflow(), {.on_nan = on_nan::skip});
    EXPECT_TRUE(std::isfinite(skipping.evaluate(digits_200().batch(64)).loss));
  }
}

TEST(Fit, NonFiniteLossIsSkippedOnRequest) {
  for (const std::uint32_t replicas : {1, 2}) {
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    auto model = small_model();
    const auto seen =
      model.fit(with_nan_in_batch(4).batch(20), {.on_nan = on_nan::skip});
    EXPECT_EQ(seen.last().examples, 180u);
    EXPECT_TRUE(std::isfinite(seen.last().loss));
    EXPECT_TRUE(std::isfinite(model.evaluate(digits_200().batch(64)).loss));
  }
}

TEST(Fit, InvalidDataIsRejectedWithAReason) {
  const auto two = turns(2);
  const auto scope = two.scope();
  auto it = small_model();
  const auto examples = digits_200();
  const auto refused = [&](const data::dataset& x, const fit_options& o = {}) {
    return sentence([&] { it.fit(x, o); });
  };
  const auto has = [](const std::string& said, const char* what) {
    EXPECT_NE(said.find(what), said.npos) << said;
  };
  has(refused(examples), "group them with batch(count)");
  has(refused(examples.batch(1)), "leaves some of 2 replicas without");
  has(refused(examples.batch(8).repeat()), "has no end");
  has(refused(examples.batch(8), {.epochs = 0}), "epochs: 0");
  has(refused(examples.batch(8), {.replica_shares = {1}}),
      "replica_shares 1: there are 1 shares for 2 replicas");
  has(refused(examples.batch(8), {.replica_shares = {1, 0}}),
      "replica_shares 1,0: the share of replica 1");
  has(refused(examples.batch(8), {.replica_shares = {99, 1}}),
      "replica_shares 99,1: a batch size of 8 leaves replica 1 without");
  has(refused(examples.batch(8), {.early_stopping = early_stopping{}}),
      "there is none");
  has(refused(examples.batch(8), {.resume = true}), "no interrupted fit");
  const data::dataset wide{tensor::zeros({4, 5}),
                           tensor::zeros({4}, dtype::int32)};
  has(refused(wide.batch(2)), "[28, 28, 1]");
  const data::dataset many{tensor::zeros({4, 28, 28, 1}),
                           tensor::of<std::int32_t>({4}, {0, 1, 2, 11})};
  has(refused(many.batch(2)), "labels of 12 classes");
}

TEST(Fit, DatasetOfAnotherStrategyIsRejected) {
  const auto two = turns(2), other = turns(2);
  const auto scope = two.scope();
  auto it = small_model();
  EXPECT_THROW(it.fit(other.distribute(digits_200().batch(8))),
               std::logic_error);
  it.fit(two.distribute(digits_200().batch(100)));
  EXPECT_EQ(it.steps(), 2u);
}

} // namespace
