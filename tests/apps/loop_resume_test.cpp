#include "../support/scratch.hpp"
#include "child.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

class LoopResume : public scratch_test {
protected:
  /// Makes the steps [begin, end) in a new process. Returns the hash of the
  /// weights.
  std::string weights_after(const std::string& strategy,
                            const std::string& rule, int begin, int end,
                            const std::string& file,
                            const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command{TROUPE_PROGRAMS "/resumed_loop",
                                     strategy,
                                     rule,
                                     std::to_string(begin),
                                     std::to_string(end),
                                     (folder / file).string()};
    command.insert(command.end(), more.begin(), more.end());
    const auto done = run_child(command);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(done.out.size(), 65u) << done.out;
    return done.out;
  }
};

TEST_F(LoopResume, EndsWithTheWeightsOfAnUndisturbedLoop) {
  for (const std::string rule : {"momentum", "adam"}) {
    const auto expected = weights_after("one_device", rule, 0, 15, "whole");
    for (const std::string strategy : {"one_device", "mirrored"}) {
      SCOPED_TRACE(strategy + ", " + rule);
      EXPECT_EQ(weights_after(strategy, rule, 0, 15, "undisturbed"), expected);
      EXPECT_NE(weights_after(strategy, rule, 0, 7, "half"), expected);
      EXPECT_EQ(weights_after(strategy, rule, 7, 15, "half"), expected);
    }
  }
}

TEST_F(LoopResume, BeginsALoopOfTheStrategyAtAPosition) {
  const auto expected = weights_after("one_device", "adam", 0, 20, "whole");
  for (const std::string strategy : {"one_device", "mirrored"}) {
    SCOPED_TRACE(strategy);
    // The second loop begins in the middle of the first epoch, the third one at
    // the begin of the second epoch.
    EXPECT_NE(weights_after(strategy, "adam", 0, 7, "part", {"loop"}),
              expected);
    EXPECT_NE(weights_after(strategy, "adam", 7, 10, "part", {"loop"}),
              expected);
    EXPECT_EQ(weights_after(strategy, "adam", 10, 20, "part", {"loop"}),
              expected);
  }
}

} // namespace
