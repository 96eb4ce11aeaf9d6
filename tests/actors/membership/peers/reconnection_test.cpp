#include "troupe/actors/membership/peers/reconnection.hpp"

#include <gtest/gtest.h>

#include <set>

namespace troupe::reconnection {

namespace {

using namespace std::chrono_literals;

constexpr process_id one{1, 11}, three{3, 13};

/// Task 2, with a timeout of 1 s.
state_machine process_two() {
  return {2, 1000ms, 7};
}

template <class Effect>
std::vector<Effect> all(const reaction& effects) {
  std::vector<Effect> out;
  for (const auto& x : effects)
    if (const auto* found = std::get_if<Effect>(&x))
      out.push_back(*found);
  return out;
}

TEST(Reconnection, TheHigherTaskDialsAtOnceAndTheLowerOneWaits) {
  auto it = process_two();
  const auto to_one = it.on_cut(one, 5s);
  ASSERT_EQ(all<dial>(to_one).size(), 1u);
  EXPECT_EQ(all<dial>(to_one)[0].process, one);
  EXPECT_EQ(all<dial>(to_one)[0].delay, 0ms);
  const auto to_three = it.on_cut(three, 5s);
  EXPECT_TRUE(all<dial>(to_three).empty());
  for (const auto& x : {to_one, to_three}) {
    ASSERT_EQ(all<set_timer>(x).size(), 1u);
    EXPECT_EQ(all<set_timer>(x)[0].delay, 1000ms);
  }
  EXPECT_TRUE(it.awaits(one) && it.awaits(three));
  EXPECT_TRUE(it.awaits_task(3));
  EXPECT_FALSE(it.awaits_task(2));
}

TEST(Reconnection, DialsAgainAfterARandomDelayThatGrows) {
  auto it = process_two();
  it.on_cut(one, 0s);
  auto longest = min_dial_delay;
  std::set<milliseconds> delays;
  for (int i = 0; i < 20; ++i) {
    const auto again = all<dial>(it.on_dial_failed(one, false));
    ASSERT_EQ(again.size(), 1u);
    EXPECT_GE(again[0].delay, longest / 2);
    EXPECT_LE(again[0].delay, longest);
    delays.insert(again[0].delay);
    longest = std::min(2 * longest, max_dial_delay);
  }
  EXPECT_GT(delays.size(), 5u) << "they are random";
}

TEST(Reconnection, ALossIsReportedOnceAfterTheTimeout) {
  auto it = process_two();
  const auto timer = all<set_timer>(it.on_cut(three, 0s))[0];
  const auto lost_ones = all<lost>(it.on_timeout(three, timer.number));
  ASSERT_EQ(lost_ones.size(), 1u);
  EXPECT_EQ(lost_ones[0].process, three);
  EXPECT_FALSE(it.awaits(three));
  EXPECT_TRUE(it.on_timeout(three, timer.number).empty());
  EXPECT_TRUE(it.on_dial_failed(three, false).empty());
}

TEST(Reconnection, ATimerOfAnEarlierCutHasNoEffect) {
  auto it = process_two();
  const auto timer = all<set_timer>(it.on_cut(one, 0s))[0];
  it.stop(one);
  EXPECT_TRUE(it.on_timeout(one, timer.number).empty());
  it.on_cut(one, 1s);
  EXPECT_TRUE(it.on_timeout(one, timer.number).empty());
  EXPECT_TRUE(it.awaits(one));
}

TEST(Reconnection, AFinalRejectionIsALoss) {
  auto it = process_two();
  it.on_cut(one, 0s);
  EXPECT_EQ(all<lost>(it.on_dial_failed(one, true)).size(), 1u);
  EXPECT_FALSE(it.awaits(one));
}

TEST(Reconnection, TooManyCutsAreALoss) {
  auto it = process_two();
  for (std::size_t i = 0; i < max_cuts; ++i) {
    EXPECT_TRUE(all<lost>(it.on_cut(one, 1s * i)).empty());
    it.stop(one);
  }
  EXPECT_EQ(all<lost>(it.on_cut(one, 1s * max_cuts)).size(), 1u);
  EXPECT_FALSE(it.awaits(one));
  EXPECT_TRUE(all<lost>(it.on_cut(three, 1s)).empty()) << "another process";
  auto later = process_two();
  for (std::size_t i = 0; i < 3 * max_cuts; ++i) {
    EXPECT_TRUE(all<lost>(later.on_cut(one, 10s * i)).empty());
    later.stop(one);
  }
}

// Both may need each other. If both dialed at once, each would replace the
// connection that the other one has made.
TEST(Reconnection, AProcessThatIsNeededIsDialedAlsoByTheLowerTaskButLater) {
  auto it = process_two();
  const auto to_one = it.on_needed(one), to_three = it.on_needed(three);
  ASSERT_EQ(all<dial>(to_one).size(), 1u);
  EXPECT_EQ(all<dial>(to_one)[0].delay, 0ms);
  ASSERT_EQ(all<dial>(to_three).size(), 1u);
  EXPECT_EQ(all<dial>(to_three)[0].delay, 500ms);
  ASSERT_EQ(all<set_timer>(to_three).size(), 1u);
  EXPECT_EQ(
    all<lost>(it.on_timeout(three, all<set_timer>(to_three)[0].number)).size(),
    1u);
  EXPECT_FALSE(it.awaits(three));
  EXPECT_TRUE(it.awaits(one));
}

TEST(Reconnection, AProcessOutsideTheViewIsLost) {
  auto it = process_two();
  it.on_cut(one, 0s);
  it.on_cut(three, 0s);
  membership::view next{2, {}};
  next.members.push_back({1, 11, "127.0.0.1", 1, {0}, 1});
  next.members.push_back({3, 99, "127.0.0.1", 1, {1}, 1}); // restarted
  const auto gone = all<lost>(it.on_installed(next));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].process, three);
  EXPECT_TRUE(it.awaits(one));
}

} // namespace

} // namespace troupe::reconnection
