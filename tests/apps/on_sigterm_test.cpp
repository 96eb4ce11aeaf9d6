#include "worker_test.hpp"

#include <gtest/gtest.h>

// What SIGTERM does to the workers of a job.

namespace {

using namespace troupe;

class OnSigterm : public worker_test {
protected:
  /// A job that ends by itself after about a second.
  static constexpr auto training =
    "train --data digits:700 --batch 24 --epochs 20 --replicas 3 ";
  static constexpr auto three_that_leave = "--workers 3 --on-sigterm leave ";

  static std::string undisturbed(const OnSigterm& in) {
    return in.weights_of(std::string{training} + "--strategy one_device");
  }

  /// Expects that the job was saved, and that it ends with the undisturbed
  /// weights when it is resumed.
  void expect_saved(const outcome& cut) const {
    EXPECT_EQ(cut.code, 130) << cut.err;
    EXPECT_NE(cut.err.find("interrupted after step "), cut.err.npos) << cut.err;
    EXPECT_EQ(weights_of("train --resume cut.troupe"), undisturbed(*this));
  }

  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (auto at = text.find(part); at != text.npos;
         at = text.find(part, at + 1))
      ++n;
    return n;
  }
};

TEST_F(OnSigterm, OneOfThreeLeavesAndTheOthersGiveTheSameWeights) {
  const auto expected = undisturbed(*this);
  for (const int leaver : {0, 1, 2}) {
    const auto done = run_with_signal(leaver, SIGTERM,
                                      std::string{training} + three_that_leave);
    SCOPED_TRACE("worker " + std::to_string(leaver) + '\n' + done.err);
    EXPECT_EQ(done.code, 0);
    EXPECT_EQ(count(done.err, "left the job after step "), 1u);
    EXPECT_EQ(count(done.err, "a process has left; the job goes on with 2 "
                              "processes"),
              1u);
    EXPECT_EQ(count(done.err, "without it"), 0u);
    EXPECT_NE(("\n" + done.out).find("\nweights_sha256 " + expected),
              done.out.npos)
      << done.out;
    EXPECT_EQ(count(done.out, "weights_sha256"), 1u);
  }
  EXPECT_EQ(files(), 1u); // the summary
}

TEST_F(OnSigterm, AWorkerThatIsToldTwiceLeavesOnce) {
  const auto done =
    run_with_signals({1, 1}, SIGTERM, std::string{training} + three_that_leave);
  SCOPED_TRACE(done.err);
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(count(done.err, "left the job after step "), 1u);
  EXPECT_NE(("\n" + done.out).find("\nweights_sha256 " + undisturbed(*this)),
            done.out.npos)
    << done.out;
}

/// A worker that has left is not started again.
TEST_F(OnSigterm, ALeaveIsNoRestart) {
  const auto done = run_with_signal(
    1, SIGTERM, std::string{training} + three_that_leave + "--restarts 3");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(count(done.err, "left the job after step "), 1u) << done.err;
  EXPECT_EQ(count(done.err, "started again"), 0u) << done.err;
}

/// Some may leave before the others want to. The last ones save.
TEST_F(OnSigterm, AllOfThreeSave) {
  const auto cut = run_with_signals({0, 1, 2}, SIGTERM,
                                    std::string{training} + three_that_leave
                                      + "--save cut.troupe");
  EXPECT_LT(count(cut.err, "left the job after step "), 3u) << cut.err;
  expect_saved(cut);
}

TEST_F(OnSigterm, TheParentLetsAllSave) {
  const auto cut = run_with_signal(parent, SIGTERM,
                                   std::string{training} + three_that_leave
                                     + "--save cut.troupe");
  EXPECT_EQ(count(cut.err, "left the job"), 0u) << cut.err;
  expect_saved(cut);
}

TEST_F(OnSigterm, AWorkerThatLeavesAndTheParentSave) {
  for (const auto& targets :
       std::vector<std::vector<int>>{{1, parent}, {parent, 1}})
    expect_saved(run_with_signals(targets, SIGTERM,
                                  std::string{training} + three_that_leave
                                    + "--save cut.troupe"));
}

/// `troupe launch` passes SIGTERM on to all workers. It says before that this
/// is the end of the job.
TEST_F(OnSigterm, TheParentThatPassesItOnLetsAllSave) {
  const auto cut = run_with_signal(
    parent, SIGTERM,
    "launch -n 3 -- " TROUPE_TOOL " " + std::string{training}
      + "--strategy multi_worker_mirrored --on-sigterm leave --save "
        "cut.troupe");
  EXPECT_EQ(count(cut.err, "left the job"), 0u) << cut.err;
  expect_saved(cut);
}

TEST_F(OnSigterm, ASingleProcessSaves) {
  for (const auto* how : {"save", "leave"})
    expect_saved(run_with_signal(parent, SIGTERM,
                                 std::string{training}
                                   + "--save cut.troupe --on-sigterm " + how));
}

/// Acceptance case A38: a notice to one of four workers. All save at one step.
TEST_F(OnSigterm, A38OneOfFourLetsAllSaveAtOneStep) {
  const std::string four =
    "train --data digits:700 --batch 24 --epochs 20 --replicas 4 ";
  const auto cut =
    run_with_signal(2, SIGTERM, four + "--workers 4 --save cut.troupe");
  EXPECT_EQ(cut.code, 130) << cut.err;
  EXPECT_EQ(count(cut.err, "interrupted after step "), 1u) << cut.err;
  EXPECT_EQ(weights_of("train --resume cut.troupe"),
            weights_of(four + "--strategy one_device"));
}

TEST_F(OnSigterm, OtherValuesAreRejected) {
  expect_rejected("train --on-sigterm stop", 2,
                  {"--on-sigterm stop", "save", "leave"});
}

} // namespace
