#include "troupe/simulation/simulator.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

using log = std::shared_ptr<std::string>;

/// Appends its name to the log for each message.
caf::behavior recorder(caf::event_based_actor*, log to, std::string name) {
  return {[=](int) { *to += name; }};
}

/// Returns the order in which four actors handle messages, three messages each.
std::string order_of(std::uint64_t seed) {
  auto out = std::make_shared<std::string>();
  simulator sim{seed};
  std::vector<caf::actor> all;
  for (const char* name : {"a", "b", "c", "d"})
    all.push_back(sim.spawn(recorder, out, std::string{name}));
  for (int i = 0; i < 3; ++i)
    for (const auto& it : all)
      caf::anon_send(it, i);
  sim.run_until_idle();
  return *out;
}

TEST(Simulator, OrdersMessagesByTheSeed) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto order = order_of(seed);
    EXPECT_EQ(order.size(), 12u);
    EXPECT_EQ(order, order_of(seed)) << "seed " << seed;
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 15u);
}

/// Ticks every 10 ms until it has ticked `count` times.
caf::behavior ticker(caf::event_based_actor* self, log to, std::string name,
                     int count) {
  self->delayed_send(self, 10ms, count);
  return {[=](int left) {
    *to += name;
    if (left > 1)
      self->delayed_send(self, 10ms, left - 1);
  }};
}

TEST(Simulator, MovesTheClockOnlyWhenAllMailboxesAreEmpty) {
  simulator sim;
  auto out = std::make_shared<std::string>();
  sim.spawn(ticker, out, std::string{"x"}, 3);
  sim.run_until_idle();
  EXPECT_EQ(*out, "");
  const auto begin = sim.elapsed();
  EXPECT_TRUE(sim.run_until([&] { return *out == "xxx"; }));
  EXPECT_EQ(sim.elapsed() - begin, caf::timespan{30ms});
}

TEST(Simulator, ReportsThatNoMessageAndNoTimerIsLeft) {
  simulator sim;
  auto out = std::make_shared<std::string>();
  sim.spawn(ticker, out, std::string{"x"}, 3);
  EXPECT_FALSE(sim.run_until([&] { return *out == "xxxx"; }));
  EXPECT_EQ(*out, "xxx");
}

TEST(Simulator, FiresTimersInOrderAndReArmedTimersAgain) {
  simulator sim;
  auto out = std::make_shared<std::string>();
  sim.spawn(ticker, out, std::string{"x"}, 5);
  sim.run_until_idle();
  sim.advance(35ms, 5ms);
  EXPECT_EQ(*out, "xxx");
}

TEST(Simulator, KillsTheActorsThatItSpawned) {
  auto out = std::make_shared<std::string>();
  {
    simulator sim;
    sim.spawn(ticker, out, std::string{"x"}, 1'000'000'000);
  }
  EXPECT_EQ(out.use_count(), 1);
}

} // namespace
} // namespace troupe::simulation
