#include "troupe/actors/remoting/transfer_lane.hpp"
#include "troupe/simulation/simulated_network.hpp"
#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::simulation;
using namespace troupe::tensor_transfer::testing;
using namespace std::chrono_literals;

TEST(TransferLane, CarriesTensorsOverTheThirdLaneOfASimulatedNetwork) {
  constexpr std::size_t count = 5;
  const auto size = [](std::size_t i) { return std::int64_t(300'000 * i + 1); };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    simulator sim{seed};
    simulated_network net{
      sim, 2, {.jitter = 1ms, .lanes = 3, .lane_capacity = 2}};
    transfer_lane left{
      std::move(net.lanes(0, 1)[2]), left_ends, {.window_bytes = 300'000}};
    transfer_lane right{
      std::move(net.lanes(1, 0)[2]), right_ends, {.window_bytes = 300'000}};
    left.receiver().open_channel(1);
    right.receiver().open_channel(1);
    for (std::size_t i = 0; i < count; ++i) {
      left.sender().send(1, i, {bytes_tensor(size(i), i)});
      right.sender().send(1, i, {bytes_tensor(size(i), i)});
    }
    std::size_t arrivals = 0;
    do {
      for (auto* side : {&left, &right})
        for (const auto& effect : side->progress())
          if (const auto* x = std::get_if<tensor_transfer::arrived>(&effect)) {
            ++arrivals;
            EXPECT_TRUE(same_bits(x->tensors.at(0),
                                  bytes_tensor(size(x->message), x->message)))
              << "seed " << seed;
          }
    } while (sim.advance_once());
    EXPECT_EQ(arrivals, 2 * count) << "seed " << seed;
    EXPECT_FALSE(left.failure());
    EXPECT_FALSE(right.failure());
  }
}
