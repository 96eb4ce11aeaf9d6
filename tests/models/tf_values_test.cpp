#include "troupe/models/losses.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tests/support/tf_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

// Replays what the losses and metrics of Keras have computed.

namespace troupe::models {
namespace {

using nlohmann::json;

tensor matrix(const json& rows) {
  std::vector<float> values;
  for (const auto& row : rows)
    for (const auto& one : row)
      values.push_back(one.get<float>());
  return tensor::of<float>({static_cast<std::int64_t>(rows.size()),
                            static_cast<std::int64_t>(rows[0].size())},
                           values);
}

/// Returns what Keras computes from the losses of the examples.
std::vector<float> reduced(const std::vector<float>& losses,
                           const json& inputs) {
  auto weighted = losses;
  if (const auto& weights = inputs.at("sample_weight"); !weights.is_null())
    for (std::size_t i = 0; i < losses.size(); ++i)
      weighted[i] *= weights[i].get<float>();
  const auto reduction = inputs.at("reduction").get<std::string>();
  if (reduction == "none")
    return weighted;
  float sum = 0;
  for (const auto one : weighted)
    sum += one;
  if (reduction == "sum")
    return {sum};
  EXPECT_EQ(reduction, "sum_over_batch_size");
  return {sum / static_cast<float>(losses.size())};
}

/// The labels of `label_smoothing` are (1 - smoothing) * label + smoothing / 2.
TEST(TfLosses, BinaryCrossEntropyHasTheValuesOfKeras) {
  if (!test::tf_values_file())
    GTEST_SKIP() << "TROUPE_TF_VALUES is not set";
  auto entries = test::tf_values("losses");
  std::erase_if(entries, [](const json& one) {
    const auto& inputs = one.at("inputs");
    return inputs.at("loss") != "BinaryCrossentropy"
           || !inputs.at("arguments").value("from_logits", false);
  });
  test::replay(entries, {}, [](const json& entry) {
    const auto& inputs = entry.at("inputs");
    auto labels = matrix(inputs.at("y_true"));
    for (const auto& [name, value] : inputs.at("arguments").items()) {
      if (name == "label_smoothing")
        for (auto& one : labels.mutable_data<float>())
          one = one * (1 - value.get<float>()) + value.get<float>() / 2;
      else
        EXPECT_EQ(name, "from_logits");
    }
    const auto losses = find_loss("binary_cross_entropy")
                          .compute(matrix(inputs.at("y_pred")), labels);
    const auto each = losses.data<float>();
    const auto got = reduced({each.begin(), each.end()}, inputs);
    auto want = entry.at("expected");
    if (!want.is_array())
      want = json::array({want});
    ASSERT_EQ(got.size(), want.size());
    // Ours and Keras's exp and log are not rounded equally, and the sum of the
    // outputs has another order.
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i].get<float>(),
                  4 * 0x1p-23f * std::max(1.0f, std::abs(got[i])));
  });
}

const std::string no_weights = "metrics are computed without weights";
const std::string interpolates = "only the interpolated curve is built";

const test::reasons_by_id not_replayed{
  {"metrics/keras-3.15.1/AUC/weighted", no_weights},
  {"metrics/keras-3.15.1/AUC,num_thresholds=5/weighted", no_weights},
  {"metrics/keras-3.15.1/AUC,num_thresholds=5,summation_method=minoring/plain",
   interpolates},
  {"metrics/keras-3.15.1/AUC,num_thresholds=5,summation_method=minoring/"
   "weighted",
   interpolates},
  {"metrics/tf_keras-2.21.0/AUC,curve=PR/weighted",
   "only the ROC curve is built"},
  {"metrics/tf_keras-2.21.0/AUC,num_thresholds=5,summation_method=minoring/"
   "plain",
   interpolates},
  {"metrics/tf_keras-2.21.0/AUC,num_thresholds=5,summation_method=minoring/"
   "weighted",
   interpolates},
  {"metrics/tf_keras-2.21.0/AUC,num_thresholds=5,summation_method=majoring/"
   "plain",
   interpolates},
};

TEST(TfMetrics, AucHasTheValuesOfKeras) {
  if (!test::tf_values_file())
    GTEST_SKIP() << "TROUPE_TF_VALUES is not set";
  auto entries = test::tf_values("metrics");
  std::erase_if(entries, [](const json& one) {
    return one.at("inputs").value("metric", "") != "AUC";
  });
  test::replay(entries, not_replayed, [](const json& entry) {
    const auto& inputs = entry.at("inputs");
    ASSERT_TRUE(inputs.at("sample_weight").is_null());
    auc_options options;
    for (const auto& [name, value] : inputs.at("arguments").items()) {
      ASSERT_EQ(name, "num_thresholds");
      options.num_thresholds = value.get<std::uint32_t>();
    }
    const auto column = [](const json& list) {
      return tensor::of<float>({static_cast<std::int64_t>(list.size())},
                               list.get<std::vector<float>>());
    };
    const auto outputs = column(inputs.at("y_pred")),
               labels = column(inputs.at("y_true"));
    const auto tested = auc_metric(options);
    std::vector<double> sums(tested.sums);
    tested.add(outputs, labels, sums);
    EXPECT_EQ(static_cast<float>(tested.value(sums)),
              entry.at("expected").at("after_first").get<float>());
    const auto half = outputs.dims().front() / 2;
    tested.add(outputs.slice(0, half), labels.slice(0, half), sums);
    EXPECT_EQ(static_cast<float>(tested.value(sums)),
              entry.at("expected").at("after_second").get<float>());
  });
}

} // namespace
} // namespace troupe::models
