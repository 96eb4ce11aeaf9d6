#include "troupe/strategies/coordinator/closure_effects.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace troupe::coordinator {

namespace {

payload number(int x) {
  return std::make_shared<const int>(x);
}

closure_effects used_effects() {
  closure_effects out;
  out.store({5, 1, 1}, number(51));
  out.store({5, 2, 1}, number(52));
  out.store({7, 1, 1}, number(71));
  out.store({6, 1, 1}, number(61), 4);
  out.decide({{6, 1, 1}, 4});
  return out;
}

TEST(ClosureEffects, RestoresWhatWasSaved) {
  const auto from = used_effects();
  closure_effects made;
  ASSERT_TRUE(made.restore(from.save(), from.waiting_effects()));
  EXPECT_EQ(made.waiting(), 3u);
  EXPECT_TRUE(made.is_decided(3));
  EXPECT_FALSE(made.is_decided(5));
  EXPECT_TRUE(made.is_decided(6));
  EXPECT_FALSE(made.decide({{6, 1, 1}, 4}).applied);
  const auto verdict = made.decide({{5, 2, 1}, 4});
  ASSERT_TRUE(verdict.applied);
  EXPECT_EQ(*static_cast<const int*>(verdict.applied->get()), 52);
  EXPECT_FALSE(made.store({6, 2, 1}, number(62)));
}

TEST(ClosureEffects, RejectsAnImpossibleImage) {
  const auto from = used_effects();
  const auto rejects = [&](auto change) {
    auto image = from.save();
    auto effects = from.waiting_effects();
    change(image, effects);
    closure_effects made;
    return !made.restore(image, effects) && made.waiting() == 0
           && !made.is_decided(0);
  };
  EXPECT_TRUE(rejects([](auto& x, auto&) { x.decided = {7, 6}; }));
  EXPECT_TRUE(rejects([](auto& x, auto&) { x.decided = {3, 6}; }));
  EXPECT_TRUE(rejects([](auto& x, auto&) { x.decided = {5, 6}; }));
  EXPECT_TRUE(rejects([](auto& x, auto&) { x.done_below = 6; }));
  EXPECT_TRUE(rejects([](auto& x, auto&) { x.waiting[1] = x.waiting[0]; }));
  EXPECT_TRUE(rejects([](auto&, auto& effects) { effects.pop_back(); }));
}

} // namespace

} // namespace troupe::coordinator
