#include "troupe/strategies/parameter_server/part_contributions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace troupe::parameter_server {

namespace {

using enum consistency_kind;

contribution pushed_by(std::uint32_t replica, std::uint64_t step) {
  return {{1, {replica, step, 7}, 0}, {}};
}

std::vector<std::uint32_t> replicas_in(const std::vector<contribution>& all) {
  std::vector<std::uint32_t> out;
  for (const auto& x : all)
    out.push_back(x.pushed.id.replica);
  return out;
}

using ids = std::vector<std::uint32_t>;

TEST(PartContributions, RecognizesEachContributionInAnyOrder) {
  std::mt19937_64 random{1};
  for (int round = 0; round < 200; ++round) {
    part_contributions part{7, {asynchronous}, 1};
    // At most max_steps_ahead after the first missing step.
    std::vector<std::uint64_t> steps(max_steps_ahead + 1);
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i] = i;
    std::ranges::shuffle(steps, random);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t k = 0; k < steps.size(); ++k)
        ASSERT_EQ(part.check(0, steps[k]),
                  k < i ? push_result::repeated : push_result::accepted);
      ASSERT_EQ(part.add(pushed_by(0, steps[i]))->version, i + 1);
    }
    EXPECT_EQ(part.next_step(0), steps.size());
  }
}

TEST(PartContributions, RejectsAStepThatIsTooFarAhead) {
  part_contributions part{7, {asynchronous}, 2};
  EXPECT_EQ(part.check(0, max_steps_ahead), push_result::accepted);
  EXPECT_EQ(part.check(0, max_steps_ahead + 1), push_result::future_step);
  EXPECT_EQ(part.check(0, ~std::uint64_t{0}), push_result::future_step);
  part.add(pushed_by(0, 0));
  EXPECT_EQ(part.check(0, max_steps_ahead + 1), push_result::accepted);
  EXPECT_EQ(part.check(1, max_steps_ahead + 1), push_result::future_step);
}

TEST(PartContributions, AsynchronousReadsWaitForTheOwnContributions) {
  part_contributions part{7, {asynchronous}, 2};
  EXPECT_TRUE(part.can_read(0, 0));
  EXPECT_FALSE(part.can_read(0, 1));
  part.add(pushed_by(0, 0));
  EXPECT_TRUE(part.can_read(0, 1));
  EXPECT_FALSE(part.can_read(1, 1));
}

TEST(PartContributions, BoundedReadsWaitForTheSlowestReplica) {
  for (std::uint32_t bound = 0; bound < 4; ++bound) {
    part_contributions part{7, {bounded, bound}, 3};
    for (std::uint64_t t = 0; t < 10; ++t) {
      part.add(pushed_by(0, t));
      part.add(pushed_by(1, t));
    }
    // Replica 2 has contributed to no step.
    for (std::uint64_t step = 0; step <= 10; ++step)
      EXPECT_EQ(part.can_read(0, step), step <= bound);
    for (std::uint64_t t = 0; t < 4; ++t)
      part.add(pushed_by(2, t));
    for (std::uint64_t step = 0; step <= 10; ++step)
      EXPECT_EQ(part.can_read(0, step), step <= 4 + bound);
    EXPECT_FALSE(part.can_read(2, 5)); // its own contribution is missing
  }
}

TEST(PartContributions, AddsTheContributionsOfASynchronousStepByReplica) {
  part_contributions part{7, {synchronous}, 3};
  for (const std::uint32_t replica : {2, 0, 1})
    EXPECT_FALSE(part.add(pushed_by(replica, 0)));
  EXPECT_TRUE(part.can_read(1, 0));
  EXPECT_FALSE(part.can_read(1, 1)); // not decided yet
  const decision all{1, 0, {0, 1, 2}};
  ASSERT_TRUE(part.can_decide(all));
  const auto made = part.decide(all);
  EXPECT_EQ(made.part, 7u);
  EXPECT_EQ(made.version, 1u);
  EXPECT_EQ(replicas_in(made.contributions), (ids{0, 1, 2}));
  EXPECT_TRUE(made.dropped.empty());
  EXPECT_TRUE(part.can_read(1, 1));
  EXPECT_FALSE(part.can_decide(all));
}

TEST(PartContributions, DropsContributionsThatTheDecisionDoesNotName) {
  part_contributions part{7, {synchronous, 0, 2}, 3};
  part.add(pushed_by(0, 0));
  part.add(pushed_by(2, 0));
  part.add(pushed_by(2, 1)); // waits for the decision on step 1
  EXPECT_FALSE(part.can_decide({1, 0, {0, 1}})); // 1 has not contributed
  EXPECT_FALSE(part.can_decide({1, 1, {2}}));    // step 0 comes first
  const auto made = part.decide({1, 0, {0}});
  EXPECT_EQ(replicas_in(made.contributions), (ids{0}));
  EXPECT_EQ(replicas_in(made.dropped), (ids{2}));
  EXPECT_TRUE(part.is_decided(0));
  EXPECT_EQ(part.next_step(1), 1u); // it goes on at the next step
  EXPECT_EQ(part.check(1, 1), push_result::accepted);
  EXPECT_FALSE(part.add(pushed_by(1, 0)));
  EXPECT_EQ(part.state().waiting.size(), 1u);
  EXPECT_EQ(replicas_in(part.decide({1, 1, {2}}).contributions), (ids{2}));
}

TEST(PartContributions, ADecisionNamesEnoughContributors) {
  for (std::uint32_t backup_workers = 0; backup_workers < 4; ++backup_workers) {
    part_contributions part{7, {synchronous, 0, backup_workers}, 3};
    for (std::uint32_t replica = 0; replica < 3; ++replica)
      part.add(pushed_by(replica, 0));
    const ids all{0, 1, 2};
    for (std::uint32_t n = 0; n <= 3; ++n)
      EXPECT_EQ(part.can_decide({1, 0, {all.begin(), all.begin() + n}}),
                n > 0 && n + backup_workers >= 3)
        << n << " of 3 with " << backup_workers << " backup workers";
  }
}

TEST(PartContributions, AReplicaThatIsLateGoesOnAtTheVersion) {
  part_contributions part{7, {synchronous, 0, 1}, 2};
  for (std::uint64_t t = 0; t < 200; ++t) {
    part.add(pushed_by(0, t));
    part.decide({1, t, {0}});
  }
  EXPECT_EQ(part.next_step(1), 200u);
  EXPECT_EQ(part.check(1, 200), push_result::accepted);
  part.add(pushed_by(1, 200));
  part.add(pushed_by(0, 200));
  EXPECT_EQ(replicas_in(part.decide({1, 200, {0, 1}}).contributions),
            (ids{0, 1}));
}

TEST(PartContributions, ADecisionMovesAClockOverAnyNumberOfSteps) {
  for (const std::uint64_t version : {0ul, 1ul, 62ul, 63ul, 64ul, 1ul << 60}) {
    // Replica 1 lacks step 0, and has steps 1 to 64.
    part_state given{version, {{version + 1, 0}, {0, ~0ul}}, {}};
    given.waiting.push_back(pushed_by(0, version).pushed);
    part_contributions part{7, {synchronous, 0, 1}, 2};
    ASSERT_TRUE(part.restore(given, std::vector<payload>(1)));
    part.decide({1, version, {0}});
    EXPECT_EQ(part.next_step(1), std::max<std::uint64_t>(version + 1, 65));
    EXPECT_EQ(part.state().clocks[1].later_steps, 0u);
  }
}

TEST(PartContributions, BoundsTheContributionsThatWait) {
  part_contributions part{7, {synchronous}, 2};
  std::uint64_t step = 0;
  while (step < 1'000 && part.check(0, step) == push_result::accepted)
    part.add(pushed_by(0, step++));
  EXPECT_EQ(step, max_steps_ahead + 1);
  EXPECT_EQ(part.check(0, step), push_result::future_step);
}

TEST(PartContributions, GoesOnFromTheStateOfAnotherOne) {
  part_contributions part{7, {synchronous}, 2};
  const payload gradient{std::make_shared<const int>(3), 4};
  part.add({pushed_by(0, 0).pushed, gradient});
  part.add(pushed_by(1, 0));
  part.decide({1, 0, {0, 1}});
  part.add({pushed_by(1, 1).pushed, gradient});
  part_contributions copy{7, {synchronous}, 2};
  ASSERT_TRUE(copy.restore(part.state(), part.waiting_gradients()));
  EXPECT_EQ(copy.version(), 1u);
  EXPECT_EQ(copy.check(1, 1), push_result::repeated);
  EXPECT_EQ(copy.check(0, 1), push_result::accepted);
  copy.add(pushed_by(0, 1));
  const auto made = copy.decide({1, 1, {0, 1}});
  EXPECT_EQ(made.contributions[1].gradient, gradient);
}

TEST(PartContributions, RejectsAnImpossibleState) {
  part_contributions source{7, {synchronous}, 2};
  source.add(pushed_by(1, 0));
  source.add(pushed_by(0, 1));
  const auto good = source.state();
  const std::vector<payload> gradients(2);
  const auto is_taken = [&](part_state state, std::size_t count = 2) {
    part_contributions to{7, {synchronous}, 2};
    return to.restore(state, std::span{gradients}.first(count));
  };
  EXPECT_TRUE(is_taken(good));
  EXPECT_FALSE(is_taken(good, 1));
  const auto changed = [&](auto&& change) {
    auto out = good;
    change(out);
    return out;
  };
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.clocks.pop_back(); })));
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.version = 1; })));
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.waiting[0].id.replica = 2; })));
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.waiting[0].id.part = 6; })));
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.waiting[0].id.step = 3; })));
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.clocks[0].later_steps = 0; })));
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.waiting[1].id.step = 65; })));
  EXPECT_FALSE(
    is_taken(changed([](auto& x) { std::swap(x.waiting[0], x.waiting[1]); })));
  EXPECT_FALSE(is_taken(changed([](auto& x) { x.waiting[1] = x.waiting[0]; })));
  part_contributions other{7, {asynchronous}, 2};
  EXPECT_FALSE(other.restore(good, gradients));
}

} // namespace

} // namespace troupe::parameter_server
