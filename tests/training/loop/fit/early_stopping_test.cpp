#include "troupe/models/layers.hpp"
#include "troupe/tests/support/collected_warnings.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace troupe;
using test::collected_warnings, test::text_of;

constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
constexpr auto infinity = std::numeric_limits<double>::infinity();

model line() {
  return model{
    {.name = "line", .input = {2}, .layers = models::stack(models::dense{1})},
    sgd{.learning_rate = 1e-3f},
    {.loss = "mean_squared_error"}};
}

data::dataset rows() {
  return data::dataset{tensor::full({4, 2}, 1), tensor::zeros({4, 1})}.batch(2);
}

/// Fits with a validation metric that has these values.
history fitted(const std::vector<double>& values, bool larger_is_better,
               std::uint64_t patience = 2) {
  auto it = line();
  // The value is computed for each step too, so it follows the epoch.
  std::size_t epoch = 0;
  models::metric metric{
    .name = "scripted",
    .sums = 1,
    .add = [](const tensor&, const tensor&, std::span<double>) {},
    .value = [&](std::span<const double>) { return values.at(epoch); },
    .larger_is_better = larger_is_better};
  return it.fit(
    rows(), {.epochs = values.size(),
             .validation = rows(),
             .callbacks = {{.on_epoch_end =
                              [&](const epoch_record&) {
                                if (epoch + 1 < values.size())
                                  ++epoch;
                              }}},
             .early_stopping = early_stopping{.monitor = "validation_scripted",
                                              .patience = patience},
             .metrics = {{metric}}});
}

TEST(EarlyStopping, FollowsAMetricOfOnesOwnInItsDirection) {
  const std::vector<double> values{3, 2, 1, 4, 5, 6, 7};
  const auto falling = fitted(values, false);
  EXPECT_EQ(falling.end, fit_end::stopped_early);
  EXPECT_EQ(falling.epochs.size(), 5u);
  EXPECT_EQ(falling.best_epoch, 3u);
  const auto rising = fitted(values, true);
  EXPECT_EQ(rising.epochs.size(), 3u);
  EXPECT_EQ(rising.best_epoch, 1u);
  EXPECT_EQ(fitted(values, true, 3).best_epoch, 7u);
}

TEST(EarlyStopping, NoValueThatIsNotFiniteIsAnImprovement) {
  for (const auto bad : {nan, infinity, -infinity})
    for (const bool larger_is_better : {false, true}) {
      const auto never = fitted({bad, bad, bad, bad}, larger_is_better);
      EXPECT_EQ(never.end, fit_end::stopped_early);
      EXPECT_EQ(never.epochs.size(), 2u);
      EXPECT_EQ(never.best_epoch, 0u);
      // The first number is an improvement.
      const auto late = fitted({bad, 5, bad, bad, 5}, larger_is_better);
      EXPECT_EQ(late.epochs.size(), 4u);
      EXPECT_EQ(late.best_epoch, 2u);
    }
}

TEST(EarlyStopping, OfAnUnfitLossRestoresNoWeights) {
  // The validation loss is NaN from the first epoch on.
  auto inputs = tensor::full({4, 2}, 1);
  inputs.mutable_data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  const auto bad = data::dataset{inputs, tensor::zeros({4, 1})}.batch(2);
  auto it = line();
  std::string last;
  const auto seen =
    it.fit(rows(), {.epochs = 9,
                    .validation = bad,
                    .callbacks = {{.on_epoch_end =
                                     [&](const epoch_record&) {
                                       last = it.weights_sha256();
                                     }}},
                    .early_stopping = early_stopping{.patience = 3}});
  EXPECT_EQ(seen.end, fit_end::stopped_early);
  EXPECT_EQ(seen.epochs.size(), 3u);
  EXPECT_EQ(seen.best_epoch, 0u);
  EXPECT_EQ(it.weights_sha256(), last);
}

TEST(EarlyStopping, AModeReplacesTheDirectionOfAMetric) {
  auto it = line();
  const auto seen = it.fit(
    rows(), {.epochs = 5,
             .early_stopping = early_stopping{.monitor = monitored_metric::loss,
                                              .mode = monitor_mode::max,
                                              .patience = 2}});
  EXPECT_EQ(seen.epochs.size(), 3u) << "the loss falls";
  EXPECT_EQ(seen.best_epoch, 1u);
}

TEST(EarlyStopping, FollowsBuiltInMetricsByName) {
  auto it = line();
  const auto seen = it.fit(
    rows(), {.epochs = 4,
             .validation = rows(),
             .early_stopping =
               early_stopping{.monitor = "validation_mean_absolute_error",
                              .patience = 1},
             .metrics = {{models::mean_absolute_error_metric()}}});
  EXPECT_EQ(seen.best_epoch, 4u);
  EXPECT_EQ(models::auc_metric().larger_is_better, true);
  EXPECT_EQ(models::accuracy_metric().larger_is_better, true);
  EXPECT_EQ(models::root_mean_squared_error_metric().larger_is_better, false);
}

TEST(EarlyStopping, RefusesWhatItCannotFollow) {
  const auto refused = [](const early_stopping& early,
                          const std::vector<models::metric>& metrics = {}) {
    return text_of([&] {
      line().fit(rows(), {.early_stopping = early, .metrics = metrics});
    });
  };
  const models::metric own{
    .name = "own",
    .add = [](const tensor&, const tensor&, std::span<double>) {}};
  EXPECT_EQ(refused({.monitor = "auc"}),
            "early stopping monitors \"auc\", which this fit does not have; "
            "it has loss, validation_loss");
  EXPECT_EQ(refused({.monitor = "validation_onw"}, {own}),
            "early stopping monitors \"validation_onw\", which this fit does "
            "not have; did you mean \"validation_own\"? it has loss, own, "
            "validation_loss, validation_own");
  EXPECT_EQ(refused({.monitor = "own"}, {own}),
            "early stopping monitors \"own\", and the metric does not say "
            "whether a larger value is better; set larger_is_better of the "
            "metric, or the mode");
  for (const auto bad : {nan, infinity, -1.0})
    EXPECT_EQ(refused({.monitor = "loss", .min_delta = bad}),
              "early stopping's min_delta is " + std::to_string(bad)
                + "; it is a number of at least 0");
  EXPECT_NE(refused({.monitor = "validation_loss"}).find("there is none"),
            std::string::npos);
}

TEST(FitWithSkippedSteps, AnEpochWithoutAnUpdateHasNoLossAndIsNotTheBest) {
  // The inputs become NaN in the third epoch.
  std::uint64_t calls = 0;
  const data::dataset later{4, 0, [&](std::uint64_t) {
                              return batch{
                                tensor::full({2}, ++calls > 12 ? nan : 1.0),
                                tensor::zeros({1})};
                            }};
  auto it = line();
  const collected_warnings warnings;
  const auto seen =
    it.fit(later.batch(2),
           {.epochs = 8,
            .early_stopping =
              early_stopping{.monitor = monitored_metric::loss, .patience = 2},
            .metrics = {{models::auc_metric({.from_logits = true})}},
            .on_nan = on_nan::skip,
            .prefetch = std::size_t{0}});
  EXPECT_EQ(seen.end, fit_end::stopped_early);
  ASSERT_GE(seen.epochs.size(), 3u);
  EXPECT_EQ(seen.best_epoch, seen.epochs.size() - 2);
  EXPECT_TRUE(std::isnan(seen.last().loss));
  EXPECT_TRUE(std::isnan(seen.last().metrics.at(0).value)) << "AUC";
  EXPECT_EQ(seen.last().examples, 0u);
  EXPECT_TRUE(warnings.contain(
    "no step of epoch " + std::to_string(seen.epochs.size())
    + " has made its update, because the loss or a gradient of each was not "
      "finite"))
    << warnings.text;
}

class UnfitWeights : public scratch_test {};

TEST_F(UnfitWeights, EndAFitWithAnErrorAndAreNotSaved) {
  model it{
    {.name = "line", .input = {2}, .layers = models::stack(models::dense{1})},
    adam{.learning_rate = 3e38f},
    {.loss = "mean_squared_error"}};
  const data::dataset all{tensor::full({4, 2}, 1), tensor::full({4, 1}, 9)};
  const std::string expected =
    "the weights of \"dense_1/kernel\" are not finite after 1 step (try a "
    "smaller learning rate)";
  // The step itself has a finite loss and finite gradients.
  EXPECT_EQ(test::text_of([&] { it.fit(all.batch(4)); }), expected);
  const auto file = folder / "bad.troupe";
  EXPECT_EQ(test::text_of([&] { it.save(file); }),
            "\"" + file.string() + "\" is not written: " + expected);
  EXPECT_EQ(files(), 0u);
}

TEST_F(UnfitWeights, ComeFromNoSchedule) {
  auto it = line();
  const auto before = it.weights_sha256();
  const auto refused = test::text_of([&] {
    it.fit(rows(), {.epochs = 100,
                    .schedule = step_schedule{
                      .learning_rate = 1e-3f, .factor = 1e3f, .every = 1}});
  });
  EXPECT_EQ(refused, "the schedule 'step' has no finite learning rate at step "
                     "199; give it values with which the rate stays a float");
  EXPECT_EQ(it.weights_sha256(), before);
  EXPECT_EQ(it.steps(), 0u);
}

} // namespace
