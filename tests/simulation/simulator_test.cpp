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

/// Records its name for each message.
caf::behavior scribe(caf::event_based_actor*, log to, std::string name) {
  return {[=](int) { *to += name; }};
}

/// @returns the order in which four actors handle three messages each.
std::string order_of(std::uint64_t seed) {
  auto out = std::make_shared<std::string>();
  sim s{seed};
  std::vector<caf::actor> all;
  for (const char* name : {"a", "b", "c", "d"})
    all.push_back(s.spawn(scribe, out, std::string{name}));
  for (int i = 0; i < 3; ++i)
    for (const auto& it : all)
      caf::anon_send(it, i);
  s.settle();
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
  sim s;
  auto out = std::make_shared<std::string>();
  s.spawn(ticker, out, std::string{"x"}, 3);
  s.settle();
  EXPECT_EQ(*out, "");
  const auto begin = s.elapsed();
  EXPECT_TRUE(s.run_until([&] { return *out == "xxx"; }));
  EXPECT_EQ(s.elapsed() - begin, caf::timespan{30ms});
}

TEST(Simulator, ReportsThatNoMessageAndNoTimerIsLeft) {
  sim s;
  auto out = std::make_shared<std::string>();
  s.spawn(ticker, out, std::string{"x"}, 3);
  EXPECT_FALSE(s.run_until([&] { return *out == "xxxx"; }));
  EXPECT_EQ(*out, "xxx");
}

TEST(Simulator, FiresTimersInOrderAndReArmedTimersAgain) {
  sim s;
  auto out = std::make_shared<std::string>();
  s.spawn(ticker, out, std::string{"x"}, 5);
  s.settle();
  s.advance(35ms, 5ms);
  EXPECT_EQ(*out, "xxx");
}

TEST(Simulator, KillsTheActorsThatItSpawned) {
  auto out = std::make_shared<std::string>();
  {
    sim s;
    s.spawn(ticker, out, std::string{"x"}, 1'000'000'000);
  }
  EXPECT_EQ(out.use_count(), 1);
}

} // namespace
} // namespace troupe::simulation
