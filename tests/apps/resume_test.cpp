#include "tool.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

class ToolResume : public tool_test {
protected:
  static constexpr auto job = "train --data digits:700 --batch 20 ";

  /// Starts the job and sends a signal when the output mentions the first
  /// epoch.
  outcome interrupted_by(int signal, const std::string& more) {
    child_options options;
    bool sent = false;
    options.on_error_output = [&](pid_t child, const std::string& err) {
      if (!sent && err.find("epoch 1/") != err.npos) {
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

TEST_F(ToolResume, RejectsAFinishedRun) {
  ASSERT_EQ(troupe(job + std::string{"--quiet --save m.troupe"}).code, 0);
  expect_rejected("train --resume m.troupe", 2, {"no interrupted fit"});
}

} // namespace
