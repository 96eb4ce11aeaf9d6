#include "tool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;

class Train : public tool_test {};

const std::string small = "train --data digits:350 --epochs 2 ";

TEST_F(Train, NeedsNoOptions) {
  const auto done = troupe("train");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("test accuracy 0.9"), done.out.npos) << done.out;
  EXPECT_NE(done.out.find("weights_sha256 "), done.out.npos) << done.out;
  EXPECT_EQ(files(), 0u);
}

TEST_F(Train, WritesPlainLinesIfItsOutputIsNoTerminal) {
  const auto done = troupe(small);
  EXPECT_EQ(std::ranges::count(done.err, '\n'), 2) << done.err;
  EXPECT_EQ(done.err.find('\r'), done.err.npos);
  EXPECT_NE(done.err.find("epoch 2/2"), done.err.npos) << done.err;
}

TEST_F(Train, IsSilentOnRequest) {
  const auto done = troupe(small + "--quiet");
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.out + done.err, "");
}

TEST_F(Train, WritesASummary) {
  const auto summary = summary_of(small + "--batch 50 --seed 7 --replicas 2");
  for (const auto* member :
       {"strategy", "replicas", "threads", "steps", "examples",
        "examples_per_second", "train_loss", "test_loss", "test_accuracy",
        "weights_sha256", "seed", "version"})
    EXPECT_TRUE(summary.contains(member)) << member;
  EXPECT_EQ(summary["strategy"], "one_device");
  EXPECT_EQ(summary["replicas"], 2);
  EXPECT_EQ(summary["seed"], 7);
  EXPECT_EQ(summary["steps"], 12);
  EXPECT_EQ(summary["examples"], 600);
  EXPECT_GT(summary["examples_per_second"], 0.0);
  EXPECT_EQ(summary["weights_sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(summary["epochs"].size(), 2u);
}

TEST_F(Train, WritesTheStrategyAndItsDevicesIntoTheSummary) {
  const auto summary =
    summary_of(small + "--strategy central_storage --replicas 2");
  EXPECT_EQ(summary["strategy"], "central_storage");
  EXPECT_EQ(summary["replicas"], 2);
  EXPECT_EQ(summary["devices"], (nlohmann::json{"cpu:0", "cpu:1"}));
  EXPECT_EQ(summary["workers"], 1);
  EXPECT_EQ(summary["transport"], "none");
}

TEST_F(Train, LearnsFromACsvTableWithAJsonModel) {
  std::string text = "x,kind,y\n";
  for (int i = 0; i < 200; ++i)
    text +=
      std::to_string(i % 20 - 10) + "," + std::to_string(i % 20 / 10) + ",1\n";
  put("t.csv", text);
  put("m.json", R"({"version": 1, "name": "m", "input": [2],
                    "layers": [{"type": "dense", "units": 2}]})");
  const auto x = summary_of("train --model m.json --data csv:t.csv:kind "
                            "--epochs 20 --learning-rate 0.05 --batch 10");
  EXPECT_GT(x["test_accuracy"], 0.9);
}

TEST_F(Train, AcceptsSettingsOfOptimizerAndSchedule) {
  const auto x = summary_of(small
                            + "--optimizer sgd:momentum=0.9 --learning-rate "
                              "0.05 --schedule cosine:warm_up=2");
  EXPECT_EQ(x["learning_rate"], 0.05);
  EXPECT_LT(x["epochs"][1]["learning_rate"], 0.05);
}

TEST_F(Train, GivesTheSameWeightsInEveryRun) {
  const auto once = weights_of(small);
  EXPECT_EQ(weights_of(small), once);
  EXPECT_EQ(weights_of(small + "--strategy one_device"), once);
  EXPECT_NE(weights_of(small + "--seed 2"), once);
}

TEST_F(Train, DividesBatchesByTheReplicaShares) {
  const auto unequal = weights_of(small + "--replicas 2 --replica-shares 3,1 ");
  EXPECT_NE(weights_of(small + "--replicas 2"), unequal);
  EXPECT_EQ(weights_of(small + "--workers 2 --replica-shares 3,1"), unequal);
  for (const std::string shares : {"3,0", "3", "3,x", "3,1,1"}) {
    const auto done = troupe("train --replicas 2 --replica-shares " + shares);
    EXPECT_EQ(done.code, 2) << shares;
    EXPECT_NE(done.err.find("--replica-shares"), std::string::npos) << done.err;
  }
}

TEST_F(Train, SavesAModelThatPredictReads) {
  EXPECT_EQ(troupe(small + "--save m.troupe --quiet").code, 0);
  EXPECT_EQ(files(), 1u);
  const auto done =
    troupe("predict --model m.troupe --data digits:350 --count 3 "
           "--probabilities");
  EXPECT_EQ(done.code, 0) << done.err;
  std::istringstream lines{done.out};
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "example,prediction,probability,p0,p1,p2,p3,p4,p5,p6,p7,p8,"
                  "p9");
  for (int i = 0; i < 3; ++i) {
    std::getline(lines, line);
    EXPECT_EQ(line.substr(0, 2), std::to_string(i) + ",");
    EXPECT_EQ(std::ranges::count(line, ','), 12);
  }
  EXPECT_FALSE(std::getline(lines, line));
  EXPECT_EQ(
    troupe("predict --model m.troupe --data digits:350 --output o.csv").code,
    0);
  const auto text = text_of("o.csv");
  EXPECT_EQ(std::ranges::count(text, '\n'), 51);
}

TEST_F(Train, SavesIdenticalFilesInTwoRuns) {
  troupe(small + "--save a.troupe --quiet");
  troupe(small + "--save b.troupe --quiet");
  EXPECT_EQ(text_of("a.troupe"), text_of("b.troupe"));
}

TEST_F(Train, ExceedsTheAccuracyOfALinearModelOnMnistInOneEpoch) {
  const auto* folder = std::getenv("TROUPE_DATA_DIR");
  if (!folder)
    GTEST_SKIP() << "TROUPE_DATA_DIR is not set";
  const auto x = summary_of("train --data mnist:" + std::string{folder}
                            + "/mnist --epochs 1");
  EXPECT_GT(x["test_accuracy"], 0.9);
}

} // namespace
