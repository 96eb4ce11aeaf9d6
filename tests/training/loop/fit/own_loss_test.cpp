#include "troupe/data/sources/csv.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tests/support/regression_table.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <gtest/gtest.h>

#include <cmath>

// The examples of docs/models.md.

namespace {

using namespace troupe;

// [doc:begin own_loss]
tensor huber(const tensor& outputs, const tensor& labels) { // [n, k]
  const auto x = outputs - labels;
  const auto size = relu(x) + relu(negate(x)); // |x|
  const auto beyond = relu(size - 1.0f);
  const auto within = size - beyond;                      // min(|x|, 1)
  return reduce_sum(square(within) * 0.5f + beyond, {1}); // [n]
}
// [doc:end]

class ModelsPage : public scratch_test {};

TEST_F(ModelsPage, AModelLearnsWithALossAndAMetricOfTheUser) {
  put("t.csv", test::regression_table(200));
  const auto rows = data::csv(folder / "t.csv", {.targets = {"price"}});
  const models::model_description description{
    .name = "line", .input = {3}, .layers = models::stack(models::dense{1})};
  // [doc:begin register_loss]
  models::register_loss({.name = "huber",
                         .targets = models::target_kind::values,
                         .compute = huber});
  model line{description, adam{}, {.loss = "huber"}};
  // [doc:end]
  // [doc:begin own_metric]
  const models::metric within_one{
    .name = "within_one",
    .add = [](const tensor& outputs, const tensor& labels,
              std::span<double> sums) {
      const auto x = outputs.data<float>(), y = labels.data<float>();
      for (std::size_t i = 0; i < x.size(); ++i)
        sums[0] += std::abs(x[i] - y[i]) < 1;
      sums[1] += double(x.size());
    }};
  const auto history = line.fit(rows.batch(32), {.metrics = {{within_one}}});
  // [doc:end]
  const auto before = history.last();
  EXPECT_EQ(before.metrics.at(0).name, "within_one");
  const auto after =
    line
      .fit(rows.batch(32),
           {.epochs = 200,
            .metrics = {{within_one}},
            .schedule = constant_schedule{.learning_rate = 0.05f}})
      .last();
  EXPECT_LT(after.loss, before.loss / 4);
  EXPECT_EQ(after.metrics.at(0).value, 1.0);
}

} // namespace
