#include "troupe/actors/core/run_ended.hpp"
#include "troupe/actors/group/step_gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace {

using namespace std::chrono_literals;
using troupe::step_gate;

std::shared_ptr<troupe::completion_queue> queue() {
  return std::make_shared<troupe::completion_queue>(
    std::make_shared<troupe::blocking_wait_strategy>(),
    troupe::named_processes{});
}

TEST(StepGate, NamesTheReplicasThatDoNotLeave) {
  step_gate gate{3, queue()};
  const step_gate::holder inside{gate, 1};
  EXPECT_EQ(gate.close(1ms), (std::vector<std::uint32_t>{1}));
}

TEST(StepGate, RejectsAReplicaAfterItWasClosed) {
  step_gate gate{1, queue()};
  EXPECT_TRUE(gate.close(10s).empty());
  EXPECT_THROW((step_gate::holder{gate, 0}), troupe::run_ended);
}

// A replica may try to enter as long as its group exists.
TEST(StepGate, DoesNotCountAReplicaThatItRejects) {
  for (int round = 0; round < 50; ++round) {
    step_gate gate{1, queue()};
    std::atomic<bool> ended = false;
    std::atomic<int> rejected = 0;
    std::thread replica{[&] {
      while (!ended) {
        try {
          const step_gate::holder inside{gate, 0};
        } catch (const troupe::run_ended&) {
          ++rejected;
        }
      }
    }};
    std::size_t counted = 0;
    while (rejected < 100)
      counted += gate.close(10s).size();
    ended = true;
    replica.join();
    ASSERT_EQ(counted, 0u) << "in round " << round;
  }
}

} // namespace
