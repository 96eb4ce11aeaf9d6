#include "tool.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace {

using namespace troupe;

class ToolResume : public tool_test {
protected:
  static constexpr auto job = "train --data digits:700 --batch 20 ";

  /// Starts the job and sends a signal when the output mentions an epoch.
  outcome interrupted_by(int signal, const std::string& more,
                         const std::string& epoch = "epoch 1/") {
    child_options options;
    bool sent = false;
    options.on_error_output = [&](pid_t child, const std::string& err) {
      if (!sent && err.find(epoch) != err.npos) {
        ::kill(child, signal);
        sent = true;
      }
    };
    return troupe(job + more, options);
  }
};

TEST_F(ToolResume, EndsWithTheWeightsOfAnUndisturbedRun) {
  for (const std::string more : {"--epochs 3 ", "--epochs 3 --replicas 2 "}) {
    const auto undisturbed = weights_of(job + more);
    const auto cut = troupe(job + more + "--max-steps 41 --save m.troupe");
    EXPECT_EQ(cut.code, 130) << cut.err;
    EXPECT_NE(cut.err.find("troupe train --resume m.troupe"), cut.err.npos)
      << cut.err;
    EXPECT_EQ(weights_of("train --resume m.troupe"), undisturbed);
  }
}

TEST_F(ToolResume, ContinuesAfterCtrlC) {
  // With so many epochs, the signal arrives during training.
  const std::string longer = "--epochs 200 --model mlp ";
  const auto cut = interrupted_by(SIGINT, longer);
  ASSERT_EQ(cut.code, 130) << cut.err;
  EXPECT_NE(cut.err.find("--resume interrupted.troupe"), cut.err.npos)
    << cut.err;
  EXPECT_EQ(files(), 1u);
  const auto refused = troupe("train --resume interrupted.troupe "
                              "--batch 30");
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("--batch 30: the run to resume has 20"),
            refused.err.npos)
    << refused.err;
  // A resumed run is saved to the file that it was resumed from.
  EXPECT_EQ(troupe("train --resume interrupted.troupe --max-steps 5 "
                   "--quiet")
              .code,
            130);
  EXPECT_EQ(files(), 1u);
}

TEST_F(ToolResume, SavesTheFileOfAnUndisturbedRun) {
  const std::string longer = "--epochs 25 --quiet --save ";
  ASSERT_EQ(troupe(job + longer + "whole.troupe").code, 0);
  const auto cut = interrupted_by(SIGINT, "--epochs 25 --save m.troupe");
  ASSERT_EQ(cut.code, 130) << cut.err;
  const auto stood = text_of("m.troupe");
  EXPECT_EQ(troupe("train --quiet --resume m.troupe --save other.troupe").code,
            0);
  EXPECT_TRUE(text_of("other.troupe") == text_of("whole.troupe"));
  EXPECT_TRUE(text_of("m.troupe") == stood);
  EXPECT_EQ(troupe("train --quiet --resume m.troupe").code, 0);
  EXPECT_TRUE(text_of("m.troupe") == text_of("whole.troupe"));
}

TEST_F(ToolResume, ContinuesAfterSigterm) {
  const auto cut = interrupted_by(SIGTERM, "--epochs 200 ");
  EXPECT_EQ(cut.code, 130) << cut.err;
}

TEST_F(ToolResume, RejectsEpochsThatAreCompletedAlready) {
  ASSERT_EQ(troupe(job
                   + std::string{"--epochs 5 --quiet --max-steps 70 "
                                 "--save m.troupe"})
              .code,
            130);
  for (const auto* epochs : {"1", "2"})
    expect_rejected(std::string{"train --resume m.troupe --epochs "} + epochs,
                    2,
                    {"--epochs", "the run has completed 2 epochs; give more"});
  EXPECT_EQ(troupe("train --resume m.troupe --quiet --epochs 3").code, 0);
}

TEST_F(ToolResume, TrainsACompleteRunOnToTheWeightsOfALongerOne) {
  for (const std::string more : {"", "--workers 2 ",
                                 "--servers 1 "
                                 "--consistency sync "}) {
    SCOPED_TRACE(more);
    const auto longer = weights_of(job + more + "--epochs 4");
    ASSERT_EQ(troupe(job + more + "--epochs 2 --quiet --save m.troupe").code,
              0);
    const auto summary = summary_of("train --resume m.troupe --epochs 4");
    EXPECT_EQ(summary["weights_sha256"], longer);
    EXPECT_EQ(summary["epochs"].size(), 4u);
    EXPECT_GT(summary["examples_per_second"], 0.0);
    // It may go on once more, also elsewhere.
    EXPECT_EQ(weights_of("train --resume m.troupe --epochs 5 --strategy "
                         "one_device --replicas "
                         + std::string{more == "--workers 2 " ? "2" : "1"}),
              weights_of(job + more + "--epochs 5"));
  }
}

TEST_F(ToolResume, SaysWhatACompleteRunNeeds) {
  ASSERT_EQ(
    troupe(job + std::string{"--epochs 2 --quiet --save m.troupe"}).code, 0);
  for (const std::string more : {"", "--epochs 2", "--strategy one_device",
                                 "--servers 1 --consistency "
                                 "sync"})
    expect_rejected(
      "train --resume m.troupe " + more, 2,
      {"--resume m.troupe: the run is complete, with 2 epochs; "
       "give --epochs N with more to train on, or --init m.troupe "
       "begins a new run with its weights"});
  expect_rejected("train --resume m.troupe --epochs 1", 2,
                  {"--epochs 1: the run has completed 2 epochs; give more"});
  ASSERT_EQ(troupe(job
                   + std::string{"--epochs 2 --schedule cosine --quiet --save "
                                 "c.troupe"})
              .code,
            0);
  expect_rejected("train --resume c.troupe --epochs 3", 2,
                  {"its cosine schedule ends with them", "--init"});
}

TEST_F(ToolResume, RejectsARunWithItsBestWeights) {
  // With this rate the loss grows after the first epochs.
  ASSERT_EQ(troupe(job
                   + std::string{"--epochs 30 --optimizer sgd:momentum=0.95 "
                                 "--learning-rate 0.3 --patience 1 --quiet "
                                 "--save m.troupe"})
              .code,
            0);
  expect_rejected("train --resume m.troupe --epochs 25", 2,
                  {"--resume m.troupe: the run in this file has ended",
                   "early stopping", "--init m.troupe begins a new run"});
}

TEST_F(ToolResume, BeginsANewRunWithSavedWeights) {
  ASSERT_EQ(
    troupe(job + std::string{"--epochs 2 --quiet --save m.troupe"}).code, 0);
  const auto before =
    nlohmann::json::parse(troupe("evaluate --model m.troupe --json").out);
  // A rate so small that the weights hardly change.
  const std::string same = " --epochs 1 --learning-rate 1e-30";
  for (const std::string more : {"", " --workers 2", " --servers 1"}) {
    SCOPED_TRACE(more);
    const auto begun = summary_of("train --init m.troupe" + same + more);
    EXPECT_EQ(begun["data"], "digits:700");
    EXPECT_EQ(begun["batch"], 64);
    EXPECT_EQ(begun["steps"], 10);
    EXPECT_NEAR(begun["test_loss"].get<double>(), before["loss"].get<double>(),
                1e-6);
  }
  const auto other =
    summary_of("train --init m.troupe --data digits:140" + same);
  EXPECT_EQ(other["data"], "digits:140");
  expect_rejected("train --init m.troupe --model lenet", 2,
                  {"\"conv2d_1/kernel\"", "m.troupe"});
  expect_rejected("train --init none.troupe", 1, {"none.troupe"});
  expect_rejected("train --init m.troupe --resume m.troupe", 2,
                  {"--init m.troupe: --resume is given too"});
}

TEST_F(ToolResume, LosesAtMostTheStepsSinceTheLastSave) {
  const std::string longer = "--epochs 25 --save m.troupe --save-steps 7 ";
  for (const std::string more : {"", "--workers 2 "}) {
    SCOPED_TRACE(more);
    // The signal ends the tool; its workers end with it.
    const auto cut = interrupted_by(SIGKILL, longer + more);
    ASSERT_EQ(cut.code, 128 + SIGKILL) << cut.err;
    // An epoch has 30 steps, and the signal came after the first one.
    const auto saved = nlohmann::json::parse(
      troupe("evaluate --model m.troupe --json").out, nullptr, false);
    EXPECT_GE(saved["steps"], 28);
    EXPECT_EQ(saved["steps"].get<int>() % 7, 0);
    EXPECT_EQ(weights_of("train --resume m.troupe"),
              weights_of(job + more + "--epochs 25"));
  }
  // The line of an epoch precedes the save at its end.
  ASSERT_EQ(interrupted_by(SIGKILL,
                           "--epochs 25 --save e.troupe --save-epochs 1",
                           "epoch 2/")
              .code,
            128 + SIGKILL);
  const auto saved = nlohmann::json::parse(
    troupe("evaluate --model e.troupe --json").out, nullptr, false);
  EXPECT_GE(saved["steps"], 30);
  EXPECT_EQ(saved["steps"].get<int>() % 30, 0);
}

TEST_F(ToolResume, SavesTheSameWeightsWithOrWithoutSavesInBetween) {
  for (const std::string more : {"", "--workers 2 "}) {
    const std::string shorter = job + more + "--epochs 2 ";
    EXPECT_EQ(weights_of(shorter + "--save m.troupe --save-steps 4"),
              weights_of(shorter));
  }
  for (const std::string every : {"--save-steps 3", "--save-epochs 3"}) {
    expect_rejected("train " + every, 2, {every.c_str(), "give --save FILE"});
    expect_rejected("train --servers 1 " + every, 2,
                    {every.c_str(), "give --save FILE"});
  }
  expect_rejected("train --workers 2 --resume m.troupe --epochs 9 --save-steps "
                  "3",
                  2, {"--resume m.troupe: a worker that is started again"});
}

} // namespace
