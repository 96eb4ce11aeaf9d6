#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace troupe;

TEST(RuntimeEnd, NoActorOfAStrategyOutlivesTheRuntime) {
  std::vector<std::string> left_behind;
  {
    runtime own{
      {.shutdown_timeout = std::chrono::seconds{30},
       .log = [&](const std::string& x) { left_behind.push_back(x); }}};
    const mirrored_strategy on{own, {"cpu:0", "cpu:1"}};
    const std::weak_ptr<strategy_state> held = on.state();
    EXPECT_EQ(held.use_count(), 1);
    on.run([] {});
    EXPECT_EQ(held.use_count(), 1) << "replicas keep what owns them";
  }
  EXPECT_TRUE(left_behind.empty());
}

} // namespace
