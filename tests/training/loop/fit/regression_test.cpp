#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/sources/csv.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/regression_table.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace troupe;
using troupe::test::least_squares;

models::model_description linear(std::int64_t inputs,
                                 std::int64_t outputs = 1) {
  return {.name = "linear",
          .input = {inputs},
          .layers = models::stack(models::dense{outputs})};
}

/// With 200 rows in one batch, the error of gradient descent shrinks by a
/// factor of about 0.8 in each step.
const sgd descent{.learning_rate = 0.3f};
constexpr std::uint64_t enough_epochs = 100;

class Regression : public scratch_test {
protected:
  data::dataset table() {
    put("t.csv", test::regression_table(200));
    return data::csv(folder / "t.csv", {.targets = {"price"}});
  }

  static model regressor(const update_rule& rule = descent) {
    return {linear(3), rule, {.loss = "mean_squared_error"}};
  }

  static std::string sentence(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "no error";
  }
};

TEST_F(Regression, ReachesTheLeastSquaresError) {
  const auto rows = table();
  const auto all = rows.examples(0, 200);
  const least_squares oracle{all};
  auto it = regressor();
  const auto seen = it.fit(
    rows.batch(200), {.epochs = enough_epochs, .validation = rows.batch(64)});
  const auto best = oracle.mean_squared_error(all);
  EXPECT_GT(best, 0.01);
  EXPECT_NEAR(seen.last().loss / best, 1, 1e-5);
  EXPECT_NEAR(seen.last().validation_loss / best, 1, 1e-5);
  EXPECT_TRUE(std::isnan(seen.last().accuracy));
  EXPECT_TRUE(seen.last().metrics.empty());
  const auto outputs = it.predict(all.inputs);
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_NEAR(outputs.data<float>()[i], oracle.prediction(all, i), 1e-5);
}

TEST_F(Regression, StrategiesWithEqualReplicasGiveEqualWeights) {
  const auto weights = [&](const strategy& on) {
    const auto scope = on.scope();
    auto it = regressor(adam{});
    const auto seen = it.fit(
      table().shuffle().batch(48),
      {.epochs = 2, .metrics = {{models::mean_absolute_error_metric()}}});
    return std::pair{it.weights_sha256(), seen.last().metrics.at(0).value};
  };
  runtime actors;
  EXPECT_EQ(weights(mirrored_strategy{actors, {"cpu:0", "cpu:1"}}),
            weights(turns(2)));
}

TEST_F(Regression, ALoopOfOnesOwnReachesTheLeastSquaresError) {
  const auto rows = table();
  const auto all = rows.examples(0, 200);
  const auto strategy = turns(2);
  const auto scope = strategy.scope();
  auto it = regressor();
  optimizer update{descent};
  const auto batches = strategy.distribute(rows.batch(200));
  for (std::uint64_t epoch = 0; epoch < enough_epochs; ++epoch)
    for (const auto& each : batches)
      strategy.run(
        [&](replica_context& self, const batch& x) {
          tape t;
          const auto losses = models::mean_squared_error(
            it(x.inputs, {.training = true}), x.labels);
          update.apply(self.all_reduce(sum, t.gradient(losses / x.global_rows,
                                                       it.variables())),
                       it.variables());
        },
        each);
  EXPECT_NEAR(it.evaluate(rows.batch(64)).loss
                / least_squares{all}.mean_squared_error(all),
              1, 1e-5);
}

TEST_F(Regression, AnExampleWithSeveralTargetsCountsOnce) {
  const auto inputs = tensor::of<float>({2, 1}, {1, 2});
  const data::dataset rows{inputs,
                           tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6})};
  model it{
    linear(1, 3), sgd{.learning_rate = 1e-30f}, {.loss = "mean_squared_error"}};
  const auto outputs = it.predict(inputs);
  double expected = 0;
  for (std::size_t i = 0; i < 6; ++i)
    expected += std::pow(double{outputs.data<float>()[i]} - double(i + 1), 2);
  std::vector<std::uint64_t> counts;
  fit_options options;
  options.callbacks.push_back({.on_step = [&](const step_record& x) {
    counts.push_back(x.examples);
    EXPECT_NEAR(x.loss, expected / 6, 1e-5);
    EXPECT_TRUE(std::isnan(x.accuracy));
  }});
  EXPECT_EQ(it.fit(rows.batch(2), options).last().examples, 2u);
  EXPECT_EQ(counts, std::vector<std::uint64_t>{2});
  EXPECT_NEAR(it.evaluate(rows.batch(2)).loss, expected / 6, 1e-5);
}

TEST_F(Regression, FitAndEvaluateTakeALossOfTheUser) {
  // log(cosh(x)) of each difference; its gradient is tanh(x).
  models::register_loss(
    {.name = "log_cosh",
     .targets = models::target_kind::values,
     .compute = [](const tensor& outputs, const tensor& targets) {
       const auto difference = outputs - targets;
       return reduce_mean(
         troupe::log((exp(difference) + exp(negate(difference))) * 0.5f), {1});
     }});
  const auto rows = table();
  model it{linear(3), descent, {.loss = "log_cosh"}};
  EXPECT_EQ(it.loss(), "log_cosh");
  const auto before = it.evaluate(rows.batch(64)).loss;
  const auto seen = it.fit(rows.batch(50), {.epochs = 20});
  EXPECT_LT(seen.last().loss, before / 2);
  const auto all = rows.examples(0, 200);
  const auto outputs = it.predict(all.inputs);
  double expected = 0;
  for (std::size_t i = 0; i < 200; ++i)
    expected += std::log(std::cosh(double{outputs.data<float>()[i]}
                                   - double{all.labels.data<float>()[i]}));
  EXPECT_NEAR(it.evaluate(rows.batch(64)).loss, expected / 200, 1e-6);
  it.save(folder / "m.troupe");
  EXPECT_EQ(model::load(folder / "m.troupe").loss(), "log_cosh");
}

TEST_F(Regression, ALossThatGivesNoLossPerExampleIsNamed) {
  models::register_loss(
    {.name = "one_number", .compute = [](const tensor& outputs, const tensor&) {
       return reduce_mean(square(outputs), {0, 1});
     }});
  model it{linear(3), descent, {.loss = "one_number"}};
  EXPECT_EQ(sentence([&] { it.fit(table().batch(50)); }),
            "the loss \"one_number\" gave float32[] for 50 examples; it gives "
            "one loss for each example, float32[50]");
}

TEST_F(Regression, MetricsAreThoseOfAllExamples) {
  const models::metric over_one{
    .name = "over_one",
    .sums = 3,
    .add =
      [](const tensor& outputs, const tensor& labels, std::span<double> sums) {
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          const bool a = outputs.data<float>()[i] > 1,
                     b = labels.data<float>()[i] > 1;
          sums[0] += a && b;
          sums[1] += a;
          sums[2] += b;
        }
      },
    .value =
      [](std::span<const double> x) { return 2 * x[0] / (x[1] + x[2]); }};
  const std::vector<models::metric> metrics{
    models::root_mean_squared_error_metric(), over_one,
    models::mean_absolute_error_metric()};
  const auto rows = table();
  const auto all = rows.examples(0, 200);
  const auto strategy = turns(3);
  const auto scope = strategy.scope();
  auto it = regressor();
  const auto seen =
    it.fit(rows.batch(64),
           {.epochs = 10, .validation = rows.batch(48), .metrics = metrics});
  const auto outputs = it.predict(all.inputs);
  double squares = 0, absolute = 0, both = 0, single = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const double x = outputs.data<float>()[i], y = all.labels.data<float>()[i];
    squares += (x - y) * (x - y);
    absolute += std::abs(x - y);
    both += x > 1 && y > 1;
    single += (x > 1) + (y > 1);
  }
  const auto& found = seen.last().validation_metrics;
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "root_mean_squared_error");
  EXPECT_NEAR(found[0].value, std::sqrt(squares / 200), 1e-6);
  EXPECT_EQ(found[1].value, 2 * both / single);
  EXPECT_NEAR(found[2].value, absolute / 200, 1e-6);
  EXPECT_EQ(seen.last().metrics.size(), 3u);
  EXPECT_EQ(it.evaluate(rows.batch(48), {.metrics = metrics}).metrics, found);
  EXPECT_TRUE(it.evaluate(rows.batch(48)).metrics.empty());
}

TEST_F(Regression, InvalidMetricsAreRejected) {
  auto it = regressor();
  const auto refused = [&](const std::vector<models::metric>& metrics) {
    return sentence([&] { it.fit(table().batch(50), {.metrics = metrics}); });
  };
  const auto mae = models::mean_absolute_error_metric();
  EXPECT_EQ(refused({mae, mae}), "two metrics are named "
                                 "\"mean_absolute_error\"; give each its own "
                                 "name");
  EXPECT_EQ(refused({{.name = "a b", .add = mae.add}}).substr(0, 37),
            "a metric cannot be named \"a b\": a nam");
  EXPECT_EQ(refused({{.name = "f1", .sums = 3, .add = mae.add}}),
            "the metric \"f1\" has 3 sums; without `value` a metric has 2, a "
            "sum and a count, else at least 1");
  EXPECT_EQ(refused({{.name = "f1"}}),
            "the metric \"f1\" has no function; set `add`");
  const auto first = [](std::span<const double> x) { return x[0]; };
  EXPECT_EQ(
    refused({{.name = "big", .sums = 1023, .add = mae.add, .value = first}}),
    "the metrics up to \"big\" have more than the maximum of 1024 sums; choose "
    "fewer metrics");
  EXPECT_EQ(
    sentence([&] {
      it.fit(table().batch(50), {.early_stopping = early_stopping{
                                   .monitor = monitored_metric::accuracy}});
    }),
    "early stopping monitors \"accuracy\", which this fit does not have; it "
    "has loss, validation_loss");
}

TEST_F(Regression, DataThatDoesNotFitTheLossIsRejected) {
  auto it = regressor();
  const auto refused = [&](const data::dataset& x) {
    return sentence([&] { it.fit(x.batch(2)); });
  };
  const auto inputs = tensor::zeros({4, 3});
  EXPECT_EQ(refused({inputs, tensor{}}),
            "the loss \"mean_squared_error\" compares outputs with labels, but "
            "the training data has none");
  EXPECT_EQ(refused({inputs, tensor::zeros({4}, dtype::int32)}),
            "the loss \"mean_squared_error\" compares outputs with values, but "
            "the training data has class numbers; use "
            "\"softmax_cross_entropy\", or labels of another dtype");
  EXPECT_EQ(refused({inputs, tensor::zeros({4, 2})}),
            "the training data has labels float32[2, 2], but the model "
            "\"linear\" gives [2, 1] for these examples; the labels have the "
            "shape of the outputs");
  batch weighted{inputs, tensor::zeros({4})};
  weighted.others.push_back({"weights", tensor::zeros({4, 3})});
  EXPECT_EQ(refused(data::dataset::of(weighted)),
            "the training data has weights float32[2, 3] of 2 examples; give "
            "one weight for each example");
  model classifier{linear(3, 2), adam{}};
  EXPECT_EQ(sentence([&] { classifier.fit(table().batch(2)); }),
            "the loss \"softmax_cross_entropy\" needs class numbers, but the "
            "training data has labels float32[2, 1]; use a loss for values, "
            "such as \"mean_squared_error\", or give the dataset the number of "
            "its classes");
}

TEST_F(Regression, ExamplesOfWeightZeroHaveNoInfluence) {
  auto rows = table().examples(0, 200);
  tensor weights{{200}};
  for (std::size_t i = 0; i < 200; ++i) {
    weights.mutable_data<float>()[i] = float(i % 4);
    if (i % 4 == 0)
      rows.labels.mutable_data<float>()[i] = 1000;
  }
  rows.others.push_back({"weights", weights});
  const auto data = data::dataset::of(rows);
  auto it = regressor(sgd{.learning_rate = 0.2f});
  it.fit(data.batch(200), {.epochs = 200});
  const least_squares oracle{rows, weights.data<float>()};
  const auto kernel = it.variables()[0].value().data<float>();
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_NEAR(kernel[k], oracle.solution()[k], 1e-5);
  EXPECT_NEAR(it.variables()[1].value().data<float>()[0], oracle.solution()[3],
              1e-5);
}

TEST_F(Regression, TheMetricsOfAResumedFitAreThoseOfTheInterruptedFit) {
  const auto options = [](std::uint64_t max_steps) {
    return fit_options{.epochs = 2,
                       .metrics = {{models::mean_absolute_error_metric()}},
                       .max_steps = max_steps};
  };
  auto whole = regressor();
  const auto expected = whole.fit(table().batch(50), options(0));
  auto cut = regressor();
  cut.fit(table().batch(50), options(6));
  cut.save(folder / "cut.troupe");
  auto resumed = model::load(folder / "cut.troupe");
  auto rest = options(0);
  rest.resume = true;
  auto others = rest;
  others.metrics = {{models::root_mean_squared_error_metric()}};
  EXPECT_EQ(sentence([&] { resumed.fit(table().batch(50), others); }),
            "the interrupted fit had the metrics mean_absolute_error (2), but "
            "this fit has root_mean_squared_error (2); resume with the same "
            "metrics");
  resumed = model::load(folder / "cut.troupe");
  const auto seen = resumed.fit(table().batch(50), rest);
  EXPECT_EQ(resumed.weights_sha256(), whole.weights_sha256());
  ASSERT_EQ(seen.epochs.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(seen.epochs[i].loss, expected.epochs[i].loss);
    EXPECT_EQ(seen.epochs[i].metrics, expected.epochs[i].metrics);
  }
}

// -- options of fit -----------------------------------------------------------

TEST_F(Regression, ClassWeightsEqualTheWeightsOfTheirExamples) {
  const auto weights_after = [](const data::dataset& data,
                                const fit_options& options) {
    const auto strategy = turns(2);
    const auto scope = strategy.scope();
    model it{small_net(), adam{}};
    it.fit(data.batch(32), options);
    return it.weights_sha256();
  };
  const std::vector<float> by_class{1, 2, .5f, 0, 1, 3, 1, 1, 1, 4};
  auto rows = digits_200().examples(0, 200);
  tensor weights{{200}}, ones = tensor::full({200}, 1);
  for (std::size_t i = 0; i < 200; ++i)
    weights.mutable_data<float>()[i] =
      by_class[std::size_t(rows.labels.data<std::int32_t>()[i])];
  const auto with = [&](const tensor& x) {
    auto out = rows;
    out.others.push_back({"weights", x});
    return data::dataset::of(out, 10);
  };
  const auto plain = weights_after(digits_200(), {});
  const auto weighted =
    weights_after(digits_200(), {.class_weights = by_class});
  EXPECT_NE(weighted, plain);
  EXPECT_EQ(weights_after(with(weights), {}), weighted);
  EXPECT_EQ(weights_after(with(ones), {}), plain);
  model it{small_net(), adam{}};
  EXPECT_EQ(sentence([&] {
              it.fit(digits_200().batch(32), {.class_weights = {1, 2}});
            }),
            "2 class weights for 10 classes; give one for each class");
  auto other = regressor();
  EXPECT_EQ(sentence([&] {
              other.fit(table().batch(32), {.class_weights = {1, 2}});
            }),
            "class weights need class labels, but the loss is "
            "\"mean_squared_error\"; give the data weights instead");
}

TEST_F(Regression, FrozenVariablesKeepTheirBits) {
  const auto last_layer = [](const variable& x) {
    return x.name().starts_with("dense_2");
  };
  const auto after = [&](const strategy& on, const fit_options& options) {
    const auto scope = on.scope();
    // AdamW changes also variables whose gradient is zero.
    model it{small_net(), adamw{.weight_decay = 0.1f}, {.seed = 5}};
    const auto first = it.variables()[0].value().clone();
    it.fit(digits_200().batch(32), options);
    EXPECT_EQ(same_bits(it.variables()[0].value(), first),
              bool(options.trainable));
    return it.weights_sha256();
  };
  const auto all = [](const variable&) { return true; };
  EXPECT_NE(after(turns(1), {.trainable = last_layer}), after(turns(1), {}));
  runtime actors;
  EXPECT_EQ(after(turns(2), {.trainable = last_layer}),
            after(mirrored_strategy{actors, {"cpu:0", "cpu:1"}},
                  {.trainable = last_layer}));
  {
    model a{small_net(), adam{}}, b{small_net(), adam{}};
    a.fit(digits_200().batch(32), {.trainable = all});
    b.fit(digits_200().batch(32));
    EXPECT_EQ(a.weights_sha256(), b.weights_sha256());
  }
  model it{small_net(), adam{}};
  EXPECT_EQ(sentence([&] {
              it.fit(digits_200().batch(32),
                     {.trainable = [](const variable&) { return false; }});
            }),
            "`trainable` selects none of the 4 variables; select at least one");
}

TEST_F(Regression, OnlyTrainedVariablesOfAFitEqualThoseOfALoop) {
  const auto strategy = turns(2);
  const auto scope = strategy.scope();
  model fitted{small_net(), sgd{.learning_rate = 0.1f}},
    looped{small_net(), sgd{.learning_rate = 0.1f}};
  fitted.fit(digits_200().batch(50), {.trainable = [](const variable& x) {
               return x.name().starts_with("dense_2");
             }});
  optimizer update{sgd{.learning_rate = 0.1f}};
  const std::vector<variable> trained(looped.variables().begin() + 2,
                                      looped.variables().end());
  for (const auto& each : strategy.distribute(digits_200().batch(50)))
    strategy.run(
      [&](replica_context& self, const batch& x) {
        tape t;
        const auto losses =
          models::cross_entropy(looped(x.inputs, {.training = true}), x.labels);
        auto sums = self.all_reduce(sum, t.gradient(losses, trained));
        for (auto& one : sums)
          one = one / x.global_rows;
        update.apply(sums, trained);
      },
      each);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto a = fitted.variables()[i].value().data<float>(),
               b = looped.variables()[i].value().data<float>();
    for (std::size_t k = 0; k < a.size(); ++k)
      ASSERT_NEAR(a[k], b[k], 1e-6) << fitted.variables()[i].name() << " " << k;
  }
}

TEST_F(Regression, AScheduleMayBeAFunctionOfTheStep) {
  const auto after = [&](const troupe::schedule& rates) {
    auto it = regressor();
    it.fit(table().batch(50), {.epochs = 3, .schedule = rates});
    return it.weights_sha256();
  };
  EXPECT_EQ(
    after(function_schedule{[](std::uint64_t step) {
      return step < 4 ? 0.5f : step < 8 ? 0.25f : 0.125f;
    }}),
    after(step_schedule{.learning_rate = 0.5f, .factor = 0.5f, .every = 4}));
  EXPECT_EQ(sentence([&] {
              after(function_schedule{[](std::uint64_t) { return -1.0f; }});
            }),
            "the schedule's function gave the learning rate -1.000000 for step "
            "0; it must be at least 0");
  EXPECT_THROW(troupe::schedule{function_schedule{}}, std::invalid_argument);
}

} // namespace
