#include "troupe/models/metrics.hpp"
#include "troupe/tests/support/tf_values.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Replays what the metrics of Keras have computed.

namespace troupe::models {
namespace {

using nlohmann::json;

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
