#include "troupe/actors/core/log.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/training/model.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Mistakes that a new user makes: each is an error or a warning. Tests in other
// files have names with these numbers, too.
//   S0  a callback of a step saves the model, or another thread uses it
//   S1  each worker distributes its own half of the data
//   S2  each worker evaluates on its own half of the data
//   S3  the labels of an own loss have another shape than the outputs
//   S4  the learning rate is 0 in all steps
//   S5  a table has its columns in another order than that of the training
//   S6  a class has no example
//   S7  two columns of a table have one name
//   S8  there are more class weights than classes
//   S9  the copies of the parameters differ in a loop of the program

namespace {

using namespace troupe;
using test::text_of;

model classifier(int units) {
  return model{{.name = "net",
                .input = {2},
                .layers = models::stack(models::dense{units})},
               sgd{}};
}

data::dataset two_classes() {
  return {tensor::full({4, 2}, 1), tensor::of<std::int32_t>({4}, {0, 1, 1, 0})};
}

/// The mean of the squares of all differences of an example.
tensor own_squares(const tensor& outputs, const tensor& labels) {
  return reduce_mean(square(outputs - labels), {1});
}

TEST(NewUserResults, S3LabelsTakeTheShapeOfTheOutputsBeforeAnOwnLoss) {
  models::register_loss({.name = "own_squares",
                         .targets = models::target_kind::values,
                         .compute = own_squares});
  const std::vector<float> y{1, 2, 3, 4};
  const auto inputs = tensor::of<float>({4, 2}, {1, 0, 2, 0, 3, 0, 4, 0});
  const auto losses_of = [&](const char* loss, const shape& labels) {
    model it{
      {.name = "net", .input = {2}, .layers = models::stack(models::dense{1})},
      sgd{.learning_rate = 0.01f},
      {.loss = loss}};
    // A metric of one's own gets the labels in this shape too.
    const models::metric difference{
      .name = "difference",
      .add = [](const tensor& outputs, const tensor& wanted,
                std::span<double> sums) {
        EXPECT_EQ(outputs.dims(), wanted.dims());
        sums[0] += reduce_sum(outputs - wanted).item<float>();
        sums[1] += 1;
      }};
    const auto rows =
      data::dataset{inputs, tensor::of<float>(labels, y)}.batch(4);
    const auto seen = it.fit(rows, {.epochs = 5, .metrics = {{difference}}});
    const auto after = it.evaluate(rows, {.metrics = {{difference}}});
    return std::vector{seen.last().loss, seen.last().metrics[0].value,
                       after.loss, after.metrics[0].value};
  };
  const auto right = losses_of("mean_squared_error", {4, 1});
  EXPECT_EQ(losses_of("own_squares", {4, 1}), right);
  EXPECT_EQ(losses_of("own_squares", {4}), right);
  // A call of the loss itself, as in a loop of one's own.
  const auto& own = models::find_loss("own_squares");
  EXPECT_TRUE(same_bits(models::compute_losses(own, tensor::zeros({4, 1}),
                                               tensor::of<float>({4}, y)),
                        tensor::of<float>({4}, {1, 4, 9, 16})));
  EXPECT_EQ(text_of([&] {
              models::compute_losses(own, tensor::zeros({4, 2}),
                                     tensor::of<float>({4}, y));
            }),
            "own_squares of outputs float32[4, 2] and targets float32[4]");
}

TEST(NewUserResults, S4AFitWhoseLearningRateIs0IsWarnedAbout) {
  std::vector<std::string> warnings;
  log_to([&](log_level level, std::string_view text) {
    if (level == log_level::warning)
      warnings.emplace_back(text);
  });
  auto it = classifier(2);
  const fit_options options{.epochs = 2,
                            .schedule = cosine_schedule{.steps = 4}};
  it.fit(two_classes().batch(2), options);
  EXPECT_EQ(warnings, std::vector<std::string>{});
  const auto before = it.weights_sha256();
  it.fit(two_classes().batch(2), options);
  log_to({});
  EXPECT_EQ(it.weights_sha256(), before);
  EXPECT_EQ(warnings,
            std::vector<std::string>{
              "the learning rate was 0 in all 2 steps of this fit up to step "
              "5, so they changed no weight; the schedule \"cosine\" counts "
              "the steps of all fits of the model, from 0"});
}

TEST(NewUserResults, S8TooManyClassWeightsAreRejected) {
  const auto refused = [](int units, std::vector<float> weights) {
    return text_of([&] {
      classifier(units).fit(two_classes().batch(2),
                            {.class_weights = std::move(weights)});
    });
  };
  EXPECT_EQ(refused(2, {1, 2, 3}),
            "3 class weights for 2 classes; give one for each class");
  EXPECT_EQ(refused(2, {1}),
            "1 class weights for 2 classes; give one for each class");
  EXPECT_EQ(refused(2, {1, 2}), "no error");
  EXPECT_EQ(refused(3, {1, 2, 3}), "no error") << "one for each output";
  EXPECT_EQ(refused(4, {1, 2, 3}),
            "3 class weights for 2 classes; give one for each class");
}

TEST(NewUserResults, SentencesSayWhatToDo) {
  auto it = classifier(2);
  const auto inputs = tensor::zeros({4, 2});
  EXPECT_EQ(
    text_of([&] {
      it.fit(
        data::dataset{inputs, tensor::zeros({4, 1}, dtype::int32)}.batch(2));
    }),
    "the loss \"softmax_cross_entropy\" needs class numbers, but the "
    "training data has labels int32[2, 1]; class numbers are int32[n]: "
    "reshape the labels to [n]");
  EXPECT_EQ(text_of([&] {
              data::dataset(inputs, tensor::zeros({4, 1}, dtype::int32), 2);
            }),
            "2 classes of labels int32[4, 1]: class numbers are int32[n]; "
            "reshape the labels to [n]");
  EXPECT_EQ(text_of([&] { it.predict(two_classes().take(0).batch(2)); }),
            "the data to predict from has no batch; provide at least one "
            "example");
  EXPECT_EQ(text_of([&] {
              models::correct(tensor::zeros({4, 1}), tensor::zeros({4}));
            }),
            "accuracy of scores float32[4, 1] and labels float32[4]; it counts "
            "class numbers, which are int32[n]: for labels 0 and 1 of another "
            "dtype take auc_metric or a metric of your own");
  EXPECT_EQ(models::correct(tensor::of<float>({2, 2}, {0, 1, 1, 0}),
                            tensor::of<std::int32_t>({2, 1}, {1, 1})),
            1u);
}

} // namespace
