#include "tool.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;

class Evaluate : public tool_test {
protected:
  nlohmann::json result_of(const std::string& words) const {
    const auto done = troupe("evaluate --json " + words);
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out, nullptr, false);
  }
};

TEST_F(Evaluate, GivesTheTestMetricsOfTheRun) {
  const auto run =
    summary_of("train --data digits:500 --epochs 2 --save m.troupe");
  const auto found = result_of("--model m.troupe");
  EXPECT_EQ(found["data"], "digits:500");
  EXPECT_EQ(found["split"], "test");
  EXPECT_EQ(found["examples"], 71);
  EXPECT_EQ(found["steps"], run["steps"]);
  EXPECT_EQ(found["loss"], run["test_loss"]);
  EXPECT_EQ(found["metrics"]["accuracy"], run["test_accuracy"]);
  EXPECT_EQ(result_of("--model m.troupe --split training")["examples"], 429);
  EXPECT_EQ(result_of("--model m.troupe --split all")["examples"], 500);
  const auto text = troupe("evaluate --model m.troupe").out;
  EXPECT_EQ(text.find("71 examples  loss "), 0u) << text;
  EXPECT_NE(text.find("  accuracy 0."), text.npos) << text;
}

TEST_F(Evaluate, CountsEachExampleOnceOnSeveralDevices) {
  ASSERT_EQ(
    troupe("train --data digits:350 --epochs 1 --quiet --save m.troupe").code,
    0);
  const auto one = result_of("--model m.troupe --split all --batch 33");
  const auto three = result_of("--model m.troupe --split all --batch 33 "
                               "--devices cpu:0,cpu:1,cpu:2");
  EXPECT_EQ(three["examples"], 350);
  EXPECT_EQ(three["metrics"], one["metrics"]);
  EXPECT_NEAR(three["loss"].get<double>(), one["loss"].get<double>(), 1e-6);
}

TEST_F(Evaluate, ComputesOtherMetricsOnAnotherTable) {
  const auto table = [](int rows) {
    std::string text = "x,price\n";
    for (int i = 0; i < rows; ++i)
      text += std::to_string(i % 10) + "," + std::to_string(i % 10 * 2) + "\n";
    return text;
  };
  put("t.csv", table(100));
  put("new.csv", table(30));
  put("m.json", R"({"version": 1, "name": "m", "input": [1],
                    "layers": [{"type": "dense", "units": 1}]})");
  ASSERT_EQ(troupe("train --model m.json --data csv:t.csv:price --loss "
                   "mean_squared_error --epochs 1 --quiet --save m.troupe")
              .code,
            0);
  const auto found =
    result_of("--model m.troupe --data csv:new.csv:price --split all "
              "--metrics mean_absolute_error,root_mean_squared_error");
  EXPECT_EQ(found["examples"], 30);
  EXPECT_GT(found["metrics"]["mean_absolute_error"], 0.0);
  EXPECT_NEAR(
    std::pow(found["metrics"]["root_mean_squared_error"].get<double>(), 2),
    found["loss"].get<double>(), 1e-3);
  EXPECT_EQ(troupe("evaluate --model m.troupe --output found.txt").out, "");
  EXPECT_NE(text_of("found.txt").find("20 examples  loss "), std::string::npos);
  expect_rejected(
    "evaluate --model m.troupe --metrics accuracy", 2,
    {"--metrics accuracy: ", "its labels are values; give auc, "});
}

TEST_F(Evaluate, RefusesWhatItCannotCompute) {
  ASSERT_EQ(
    troupe("train --data digits:70 --epochs 1 --quiet --save m.troupe").code,
    0);
  const std::string of = "evaluate --model m.troupe ";
  expect_rejected("evaluate", 2, {"--model"});
  expect_rejected("evaluate --model none.troupe", 1, {"none.troupe"});
  expect_rejected(of + "--metrics acuracy", 2,
                  {"--metrics \"acuracy\": did you mean \"accuracy\"? give "
                   "accuracy, auc, mean_absolute_error or "
                   "root_mean_squared_error"});
  expect_rejected(of + "--metrics accuracy,auc", 2,
                  {"--metrics auc: the model has the loss "
                   "\"softmax_cross_entropy\", so its labels are class "
                   "numbers; give accuracy"});
  expect_rejected(of + "--split half", 2, {"--split", "test", "training"});
  expect_rejected(of + "--data mnist:folder --split all", 2,
                  {"mnist:folder", "training or test"});
  expect_rejected(of + "--devices cpu:0,tpu:0", 2, {"tpu:0"});
  expect_rejected(of + "--batch 0", 2, {"--batch 0", "from 1 to"});
  expect_rejected(of + "--output m.troupe", 2, {"--output m.troupe"});
  expect_rejected(of + "--data clicks:70", 2, {"[13]"});
}

} // namespace
