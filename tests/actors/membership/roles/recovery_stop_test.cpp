#include "troupe/actors/membership/roles/recovery_stop.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct RecoveryStop : ::testing::Test {
  RecoveryStop() {
    options.processes.names = {"worker 0"};
    options.stop_delay = 5s;
    options.peers = std::make_shared<peer_table>(1);
    auto& stop = options.peers->stop;
    stop.is_to_stop = [this] { return is_to_stop; };
    stop.recovers = true;
  }
  bool has_ended() const { return options.peers->stop.end_of_runs.has_value(); }

  bool is_to_stop = true;
  membership_options options;
  recovery_stop stop{options};
};

TEST_F(RecoveryStop, EndsTheRunsWhenTheDelayHasPassed) {
  stop.on_interval(10s);
  stop.on_interval(14s);
  EXPECT_FALSE(has_ended());
  stop.on_interval(15s);
  ASSERT_TRUE(has_ended());
  EXPECT_EQ(options.peers->stop.end_of_runs->code, ec::cancelled);
}

TEST_F(RecoveryStop, CountsTheDelayAgainIfTheProgramContinues) {
  stop.on_interval(10s);
  is_to_stop = false;
  stop.on_interval(12s);
  is_to_stop = true;
  stop.on_interval(14s);
  stop.on_interval(18s);
  EXPECT_FALSE(has_ended());
  stop.on_interval(19s);
  EXPECT_TRUE(has_ended());
}

TEST_F(RecoveryStop, LeavesAProcessAloneThatDoesNotRecover) {
  options.peers->stop.recovers = false;
  stop.on_interval(10s);
  stop.on_interval(60s);
  EXPECT_FALSE(has_ended());
}

} // namespace
