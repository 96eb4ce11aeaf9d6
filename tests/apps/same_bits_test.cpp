#include "tool.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

class SameBits : public tool_test {
protected:
  /// Expects equal weights from three runs of each strategy with two replicas,
  /// and other weights with three replicas.
  void expect_equal_bits(const std::string& job) {
    const auto expected =
      weights_of(job + "--strategy one_device --replicas 2");
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(weights_of(job + "--strategy mirrored --devices cpu:0,cpu:1"),
                expected);
      EXPECT_EQ(weights_of(job + "--strategy one_device --replicas 2"),
                expected);
      EXPECT_EQ(weights_of(job + "--strategy central_storage --replicas 2"),
                expected);
    }
    EXPECT_NE(weights_of(job + "--strategy one_device --replicas 3"), expected);
  }
};

TEST_F(SameBits, ComeFromEachStrategyOfOneProcessInEveryRun) {
  expect_equal_bits("train --data digits:500 --epochs 2 --batch 30 ");
}

TEST_F(SameBits, ComeFromConvolutions) {
  expect_equal_bits(
    "train --model lenet --data digits:140 --epochs 1 --batch 24 ");
}

TEST_F(SameBits, ComeFromBf16AlsoInTwoProcesses) {
  const std::string job =
    "train --precision bf16 --data digits:500 --epochs 2 --batch 30 ";
  expect_equal_bits(job);
  EXPECT_EQ(weights_of(job + "--workers 2 --transport shm"),
            weights_of(job + "--replicas 2"));
}

TEST_F(SameBits, ComeFromMnist) {
  const auto* folder = std::getenv("TROUPE_DATA_DIR");
  if (!folder)
    GTEST_SKIP() << "TROUPE_DATA_DIR is not set";
  expect_equal_bits("train --data mnist:" + std::string{folder}
                    + "/mnist --epochs 1 --batch 512 ");
}

TEST_F(SameBits, ComeFromARunThatContinuesInAnotherStrategy) {
  const std::string job = "train --data digits:500 --epochs 3 --batch 30 ";
  const auto expected = weights_of(job + "--replicas 2");
  ASSERT_EQ(troupe(job
                   + "--devices cpu:0,cpu:1 --max-steps 20 --save m.troupe "
                     "--quiet")
              .code,
            130);
  EXPECT_EQ(weights_of("train --resume m.troupe --strategy one_device "
                       "--save n.troupe"),
            expected);
  EXPECT_EQ(weights_of("train --resume m.troupe --devices cpu:0,cpu:1"),
            expected);
}

} // namespace
