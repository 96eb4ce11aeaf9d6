#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tests/strategies/tree/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::tree;
using namespace troupe::tree::testing;

namespace {

/// Values of very different size, so that the bits depend on the order of
/// addition.
template <class T>
tensors parts_of(std::uint32_t replicas, std::size_t elements,
                 std::uint64_t seed = 1) {
  std::mt19937_64 rng{seed};
  tensors out;
  for (std::uint32_t r = 0; r < replicas; ++r) {
    tensor x{shape{std::int64_t(elements)}, dtype_of<T>};
    for (auto& v : x.mutable_data<T>())
      v = T(double(rng() % 2'000'001) - 1e6) * T(std::ldexp(1, rng() % 20));
    out.push_back(x);
  }
  return out;
}

/// The definition, computed element by element.
template <class T>
T tree_of(const tensors& parts, std::size_t a, std::size_t b, std::size_t i) {
  if (b - a == 1)
    return parts[a].data<T>()[i];
  std::size_t k = 1;
  while (2 * k < b - a)
    k *= 2;
  return tree_of<T>(parts, a, a + k, i) + tree_of<T>(parts, a + k, b, i);
}

template <class T>
tensor expected(const tensors& parts) {
  tensor out{parts[0].spec()};
  for (std::size_t i = 0; i < out.size(); ++i)
    out.mutable_data<T>()[i] = tree_of<T>(parts, 0, parts.size(), i);
  return out;
}

tensor run(tree_sum& machine, const tensors& parts,
           const std::vector<std::uint32_t>& order,
           std::size_t at_a_time = all) {
  reaction what = ignored{};
  for (const auto r : order)
    what = machine.on(by(r), parts[r]);
  while (std::holds_alternative<adding>(what))
    what = machine.work(at_a_time);
  auto* done = std::get_if<finished>(&what);
  EXPECT_TRUE(done);
  return done ? done->sum : tensor{};
}

std::string why(const reaction& x) {
  auto* it = std::get_if<fault>(&x);
  return it ? it->why : "no fault";
}

bool is_ignored(const reaction& x) {
  return std::holds_alternative<ignored>(x);
}

} // namespace

TEST(TreeReduction, ArrivalOrderChangesNoBit) {
  for (std::uint32_t replicas = 1; replicas <= 5; ++replicas) {
    const auto parts = parts_of<float>(replicas, 37, replicas);
    const auto wanted = expected<float>(parts);
    std::vector<std::uint32_t> order(replicas);
    std::iota(order.begin(), order.end(), 0u);
    do {
      tree_sum machine{of(replicas)};
      ASSERT_TRUE(same_bits(run(machine, parts, order), wanted));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(TreeReduction, EqualsTheRecursiveDefinitionUpTo33Replicas) {
  std::mt19937_64 rng{33};
  for (std::uint32_t replicas = 1; replicas <= 33; ++replicas)
    for (const std::size_t size : {1, 2, 15, 16, 17, 1023, 1024, 1025, 3001}) {
      SCOPED_TRACE(std::to_string(replicas) + " replicas, "
                   + std::to_string(size) + " elements, seed 33");
      std::vector<std::uint32_t> order(replicas);
      std::iota(order.begin(), order.end(), 0u);
      for (std::size_t i = replicas; i > 1; --i)
        std::swap(order[i - 1], order[rng() % i]);
      const auto parts = parts_of<float>(replicas, size, size);
      tree_sum machine{of(replicas)};
      ASSERT_TRUE(
        same_bits(run(machine, parts, order, 1), expected<float>(parts)));
    }
}

TEST(TreeReduction, AddsDoublesInTheSameTree) {
  const auto parts = parts_of<double>(6, 1500);
  tree_sum machine{of(6)};
  EXPECT_TRUE(same_bits(run(machine, parts, {5, 4, 3, 2, 1, 0}, 700),
                        expected<double>(parts)));
}

TEST(TreeReduction, IsNotTheSumFromLeftToRight) {
  const auto parts = parts_of<float>(4, 256);
  tensor chain = parts[0].clone();
  for (std::size_t r = 1; r < 4; ++r)
    for (std::size_t i = 0; i < chain.size(); ++i)
      chain.mutable_data<float>()[i] += parts[r].data<float>()[i];
  EXPECT_FALSE(same_bits(chain, expected<float>(parts)));
}

TEST(TreeReduction, OfOneReplicaIsItsContribution) {
  const auto parts = parts_of<float>(1, 5);
  tree_sum machine{of(1)};
  EXPECT_TRUE(run(machine, parts, {0}).shares_storage_with(parts[0]));
}

TEST(TreeReduction, NeverWritesToAContributionAndReleasesItAtTheEnd) {
  const auto parts = parts_of<float>(3, 2000);
  tensors before;
  for (const auto& x : parts)
    before.push_back(x.clone());
  tree_sum machine{of(3)};
  const auto sum = run(machine, parts, {2, 0, 1});
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(same_bits(parts[r], before[r]));
    EXPECT_TRUE(parts[r].unique());
  }
  EXPECT_TRUE(sum.unique());
}

TEST(TreeReduction, SlicesFillOneOutput) {
  for (const std::size_t size : {0, 1, 16, 100, 4097}) {
    const auto parts = parts_of<float>(3, size);
    tensor room{parts[0].spec()};
    for (std::uint32_t slice = 0; slice < 3; ++slice) {
      tree_sum machine{{1, 7, 3, 3, slice, 3}};
      machine.on(by(1, slice, 3), parts[1]);
      machine.on(by(0, slice, 3), parts[0], room);
      machine.on(by(2, slice, 3), parts[2]);
      const auto what = machine.work(all);
      ASSERT_TRUE(std::holds_alternative<finished>(what));
      EXPECT_TRUE(std::get<finished>(what).sum.shares_storage_with(room));
    }
    EXPECT_TRUE(same_bits(room, expected<float>(parts))) << size;
  }
}

TEST(TreeReduction, SlicesCoverEveryElementOnce) {
  for (const std::size_t size : {0, 1, 15, 16, 17, 1000, 669'706})
    for (std::uint32_t slices = 1; slices <= 7; ++slices) {
      std::size_t next = 0;
      for (std::uint32_t s = 0; s < slices; ++s) {
        const auto mine = range_of(size, s, slices);
        EXPECT_EQ(mine.begin, next);
        next = mine.end;
      }
      EXPECT_EQ(next, size);
    }
}

TEST(TreeReduction, CountsARepeatedContributionOnce) {
  const auto parts = parts_of<float>(2, 10);
  tree_sum machine{of(2)};
  machine.on(by(0), parts[0]);
  EXPECT_TRUE(is_ignored(machine.on(by(0), parts[1])));
  EXPECT_FALSE(machine.complete());
  machine.on(by(1), parts[1]);
  EXPECT_TRUE(is_ignored(machine.on(by(1), parts[1])));
  const auto what = machine.work(all);
  EXPECT_TRUE(same_bits(std::get<finished>(what).sum, expected<float>(parts)));
  EXPECT_TRUE(is_ignored(machine.on(by(0), parts[0])));
}

TEST(TreeReduction, IgnoresOlderStepsAndRejectsNewerOnes) {
  const auto x = parts_of<float>(1, 4)[0];
  tree_sum machine{of(2)};
  auto old = by(0);
  old.at.epoch = 0;
  old.at.step = 99;
  EXPECT_TRUE(is_ignored(machine.on(old, x)));
  old = by(0);
  old.at.step = 6;
  EXPECT_TRUE(is_ignored(machine.on(old, x)));
  auto early = by(0);
  early.at.step = 8;
  EXPECT_EQ(why(machine.on(early, x)),
            "the contribution of replica 0 to bucket 3, step 8 of generation 1 "
            "arrived in step 7 of generation 1");
  early.at = by(0).at;
  early.at.epoch = 2;
  EXPECT_NE(why(machine.on(early, x)), "no fault");
  EXPECT_FALSE(machine.has(0));
}

TEST(TreeReduction, ErrorsNameTheReplicaAndBothShapes) {
  const auto one = tensor::zeros({4}), other = tensor::zeros({5});
  tree_sum machine{of(2)};
  EXPECT_EQ(
    why(machine.on(by(2), one)),
    "the contribution of replica 2 to bucket 3, step 7: there are 2 replicas");
  machine.on(by(1), one);
  EXPECT_EQ(why(machine.on(by(0), other)),
            "the contribution of replica 0 to bucket 3, step 7 is float32[5], "
            "that of replica 1 is float32[4]");
  EXPECT_NE(why(machine.on(by(0), tensor::zeros({4}, dtype::int32))),
            "no fault");
  EXPECT_NE(why(machine.on(by(0), tensor{})), "no fault");
  EXPECT_NE(why(machine.on(by(0), one, other)), "no fault");
  EXPECT_NE(why(machine.on(by(0, 1, 2), one)), "no fault");
}

TEST(TreeReduction, RestartedKeepsNothingOfTheLastStep) {
  const auto parts = parts_of<float>(2, 10);
  tree_sum machine{of(2)};
  machine.on(by(0), parts[0]);
  machine.open({1, 8, 3, 2, 0, 1});
  EXPECT_FALSE(machine.has(0));
  EXPECT_TRUE(is_ignored(machine.on(by(1), parts[1])));
}

TEST(StepMetrics, AreSummedInTheTreeOfTheReplicas) {
  std::vector<step_report> reports;
  const auto losses = parts_of<double>(5, 1);
  for (std::size_t r = 0; r < 5; ++r)
    reports.push_back({r + 1, losses[r].item<double>() * 1e-3, double(r)});
  const auto sum = total(reports);
  EXPECT_EQ(sum.examples, 15u);
  EXPECT_EQ(sum.correct, 10);
  const auto at = [&](std::size_t r) { return reports[r].loss_sum; };
  EXPECT_EQ(sum.loss_sum, ((at(0) + at(1)) + (at(2) + at(3))) + at(4));
  EXPECT_EQ(total({}), step_report{});
}
