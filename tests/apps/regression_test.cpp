#include "../support/regression_table.hpp"
#include "tool.hpp"
#include "troupe/training/job/data_source.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace {

using namespace troupe;

/// Runs the tool on a table with the numbers to learn in the column "price".
class RegressionTool : public tool_test {
protected:
  void SetUp() override {
    tool_test::SetUp();
    put("t.csv", test::regression_table(200));
    put("line.json", R"({"version": 1, "name": "line", "input": [3],
                         "layers": [{"type": "dense", "units": 1}]})");
  }

  /// Gradient descent on all 160 training rows at once. Its error shrinks by a
  /// factor of about 0.8 in each of the 100 steps.
  const std::string train =
    "train --model line.json --data csv:t.csv:price --loss mean_squared_error "
    "--optimizer sgd --learning-rate 0.3 --batch 160 --epochs 100 ";
};

TEST_F(RegressionTool, ReachesTheLeastSquaresError) {
  const auto summary = summary_of(train + "--save m.troupe");
  const auto parts = open_data("csv:" + (folder / "t.csv").string() + ":price",
                               models::target_kind::values);
  const auto rows = parts.train.examples(0, 160);
  const auto test_rows = parts.test.examples(0, 40);
  const test::least_squares oracle{rows};
  const auto best = oracle.mean_squared_error(rows);
  EXPECT_NEAR(summary.at("train_loss").get<double>() / best, 1, 1e-5);
  EXPECT_NEAR(summary.at("test_loss").get<double>()
                / oracle.mean_squared_error(test_rows),
              1, 1e-4);
  EXPECT_EQ(summary.at("loss"), "mean_squared_error");
  for (const auto* absent : {"train_accuracy", "test_accuracy"})
    EXPECT_FALSE(summary.contains(absent)) << absent;
  for (const auto& epoch : summary.at("epochs"))
    EXPECT_FALSE(epoch.contains("accuracy"));

  const auto done = troupe("predict --model m.troupe --data csv:t.csv:price");
  EXPECT_EQ(done.code, 0) << done.err;
  const auto all =
    open_to_predict("csv:" + (folder / "t.csv").string() + ":price");
  std::istringstream lines{done.out};
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "example,prediction");
  std::uint64_t row = 0;
  for (; std::getline(lines, line); ++row) {
    const auto comma = line.find(',');
    EXPECT_EQ(line.substr(0, comma), std::to_string(row));
    EXPECT_NEAR(std::stod(line.substr(comma + 1)),
                oracle.prediction(all.examples(row, row + 1), 0), 1e-4);
  }
  EXPECT_EQ(row, 200u);
}

TEST_F(RegressionTool, WeightsDoNotDependOnTheStrategy) {
  const auto one = weights_of(train + "--strategy one_device --replicas 2");
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(weights_of(train + "--strategy mirrored --devices cpu:0,cpu:1"),
            one);
  EXPECT_EQ(weights_of(train + "--workers 2 --transport tcp"), one);
}

TEST_F(RegressionTool, PrintsNoAccuracy) {
  const auto done = troupe(train);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out.rfind("test loss 0.0", 0), 0u) << done.out;
  EXPECT_EQ((done.out + done.err).find("accuracy"), std::string::npos)
    << done.out << done.err;
}

TEST_F(RegressionTool, AnInterruptedRunResumesWithItsLoss) {
  const auto whole = weights_of(train);
  EXPECT_EQ(troupe(train + "--quiet --max-steps 30 --save cut.troupe").code,
            130);
  EXPECT_EQ(weights_of("train --resume cut.troupe"), whole);
  expect_rejected("train --resume cut.troupe --loss mean_absolute_error", 2,
                  {"--loss", "mean_squared_error"});
}

TEST_F(RegressionTool, PredictsATableWithoutLabels) {
  EXPECT_EQ(troupe(train + "--quiet --save m.troupe").code, 0);
  put("u.csv", "a,b,c\n1,1,1\n0,0,0\n");
  const auto done = troupe("predict --model m.troupe --data csv:u.csv:");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(std::ranges::count(done.out, '\n'), 3) << done.out;
  // The columns are found by their names, so the last one is no label.
  EXPECT_EQ(troupe("predict --model m.troupe --data csv:u.csv").out, done.out);
  expect_rejected("predict --model m.troupe --data csv:u.csv: --probabilities",
                  2, {"--probabilities", "gives numbers"});
}

TEST_F(RegressionTool, MistakesAreNamed) {
  expect_rejected("train --model line.json --data csv:t.csv:price", 1,
                  {"is not a class number", "--loss mean_squared_error"});
  expect_rejected("train --loss squared", 2,
                  {"--loss squared: there is no loss", "mean_squared_error"});
  expect_rejected("train --data digits:70 --loss mean_squared_error", 2,
                  {"has class numbers"});
  expect_rejected(
    "train --model line.json --data csv:t.csv: --loss mean_squared_error", 2,
    {"has no label column to learn"});
}

} // namespace
