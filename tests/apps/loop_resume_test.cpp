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
                            const std::string& file) const {
    const auto done = run_child(
      {TROUPE_PROGRAMS "/resumed_loop", strategy, rule, std::to_string(begin),
       std::to_string(end), (folder / file).string()});
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

} // namespace
