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

/// Makes values of very different size, so that the bits of a sum depend on the
/// order of addition.
template <class T>
tensors inputs_of(std::uint32_t replicas, std::size_t elements,
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

/// Returns element i of the sum over replicas [a, b), computed by the
/// definition of the canonical tree.
template <class T>
T tree_of(const tensors& inputs, std::size_t a, std::size_t b, std::size_t i) {
  if (b - a == 1)
    return inputs[a].data<T>()[i];
  std::size_t k = 1;
  while (2 * k < b - a)
    k *= 2;
  return tree_of<T>(inputs, a, a + k, i) + tree_of<T>(inputs, a + k, b, i);
}

template <class T>
tensor expected(const tensors& inputs) {
  tensor out{inputs[0].spec()};
  for (std::size_t i = 0; i < out.size(); ++i)
    out.mutable_data<T>()[i] = tree_of<T>(inputs, 0, inputs.size(), i);
  return out;
}

tensor run(reduction& machine, const tensors& inputs,
           const std::vector<std::uint32_t>& order,
           std::size_t at_a_time = all_elements) {
  reaction outcome = ignored{};
  for (const auto r : order)
    outcome = machine.on(contribution_by(r), inputs[r]);
  while (std::holds_alternative<reducing>(outcome))
    outcome = machine.reduce_some(at_a_time);
  auto* done = std::get_if<finished>(&outcome);
  EXPECT_TRUE(done);
  return done ? done->sum : tensor{};
}

bool is_ignored(const reaction& x) {
  return std::holds_alternative<ignored>(x);
}

} // namespace

TEST(TreeReduction, ArrivalOrderChangesNoBit) {
  for (std::uint32_t replicas = 1; replicas <= 5; ++replicas) {
    const auto inputs = inputs_of<float>(replicas, 37, replicas);
    const auto wanted = expected<float>(inputs);
    std::vector<std::uint32_t> order(replicas);
    std::iota(order.begin(), order.end(), 0u);
    do {
      reduction machine{spec_of(replicas)};
      ASSERT_TRUE(same_bits(run(machine, inputs, order), wanted));
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
      const auto inputs = inputs_of<float>(replicas, size, size);
      reduction machine{spec_of(replicas)};
      ASSERT_TRUE(
        same_bits(run(machine, inputs, order, 1), expected<float>(inputs)));
    }
}

TEST(TreeReduction, AddsDoublesInTheSameTree) {
  const auto inputs = inputs_of<double>(6, 1500);
  reduction machine{spec_of(6)};
  EXPECT_TRUE(same_bits(run(machine, inputs, {5, 4, 3, 2, 1, 0}, 700),
                        expected<double>(inputs)));
}

TEST(TreeReduction, IsNotTheSumFromLeftToRight) {
  const auto inputs = inputs_of<float>(4, 256);
  tensor chain = inputs[0].clone();
  for (std::size_t r = 1; r < 4; ++r)
    for (std::size_t i = 0; i < chain.size(); ++i)
      chain.mutable_data<float>()[i] += inputs[r].data<float>()[i];
  EXPECT_FALSE(same_bits(chain, expected<float>(inputs)));
}

TEST(TreeReduction, OfOneReplicaIsItsContribution) {
  const auto inputs = inputs_of<float>(1, 5);
  reduction machine{spec_of(1)};
  EXPECT_TRUE(run(machine, inputs, {0}).shares_storage_with(inputs[0]));
}

TEST(TreeReduction, NeverWritesToAContributionAndReleasesItAtTheEnd) {
  const auto inputs = inputs_of<float>(3, 2000);
  tensors before;
  for (const auto& x : inputs)
    before.push_back(x.clone());
  reduction machine{spec_of(3)};
  const auto sum = run(machine, inputs, {2, 0, 1});
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(same_bits(inputs[r], before[r]));
    EXPECT_TRUE(inputs[r].unique());
  }
  EXPECT_TRUE(sum.unique());
}

TEST(TreeReduction, SlicesFillOneOutput) {
  for (const std::size_t size : {0, 1, 16, 100, 4097}) {
    const auto inputs = inputs_of<float>(3, size);
    tensor output{inputs[0].spec()};
    for (std::uint32_t slice = 0; slice < 3; ++slice) {
      reduction machine{{1, 7, 3, 3, slice, 3}};
      machine.on(contribution_by(1, slice, 3), inputs[1]);
      machine.on(contribution_by(0, slice, 3), inputs[0], output);
      machine.on(contribution_by(2, slice, 3), inputs[2]);
      const auto what = machine.reduce_some(all_elements);
      ASSERT_TRUE(std::holds_alternative<finished>(what));
      EXPECT_TRUE(std::get<finished>(what).sum.shares_storage_with(output));
    }
    EXPECT_TRUE(same_bits(output, expected<float>(inputs))) << size;
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
  const auto inputs = inputs_of<float>(2, 10);
  reduction machine{spec_of(2)};
  machine.on(contribution_by(0), inputs[0]);
  EXPECT_TRUE(is_ignored(machine.on(contribution_by(0), inputs[1])));
  EXPECT_FALSE(machine.complete());
  machine.on(contribution_by(1), inputs[1]);
  EXPECT_TRUE(is_ignored(machine.on(contribution_by(1), inputs[1])));
  const auto what = machine.reduce_some(all_elements);
  EXPECT_TRUE(same_bits(std::get<finished>(what).sum, expected<float>(inputs)));
  EXPECT_TRUE(is_ignored(machine.on(contribution_by(0), inputs[0])));
}

TEST(TreeReduction, IgnoresOlderStepsAndRejectsNewerOnes) {
  const auto input = inputs_of<float>(1, 4)[0];
  reduction machine{spec_of(2)};
  auto old = contribution_by(0);
  old.key.generation = 0;
  old.key.step = 99;
  EXPECT_TRUE(is_ignored(machine.on(old, input)));
  old = contribution_by(0);
  old.key.step = 6;
  EXPECT_TRUE(is_ignored(machine.on(old, input)));
  auto early = contribution_by(0);
  early.key.step = 8;
  EXPECT_EQ(reason_of(machine.on(early, input)),
            "the contribution of replica 0 to bucket 3, step 8 of generation 1 "
            "arrived in step 7 of generation 1");
  early.key = contribution_by(0).key;
  early.key.generation = 2;
  EXPECT_NE(reason_of(machine.on(early, input)), "no fault");
  EXPECT_FALSE(machine.has(0));
}

TEST(TreeReduction, ErrorsNameTheReplicaAndBothShapes) {
  const auto float_input = tensor::zeros({4}), different = tensor::zeros({5});
  reduction machine{spec_of(2)};
  EXPECT_EQ(
    reason_of(machine.on(contribution_by(2), float_input)),
    "the contribution of replica 2 to bucket 3, step 7: there are 2 replicas");
  machine.on(contribution_by(1), float_input);
  EXPECT_EQ(reason_of(machine.on(contribution_by(0), different)),
            "the contribution of replica 0 to bucket 3, step 7 is float32[5], "
            "that of replica 1 is float32[4]");
  EXPECT_NE(
    reason_of(machine.on(contribution_by(0), tensor::zeros({4}, dtype::int32))),
    "no fault");
  EXPECT_NE(reason_of(machine.on(contribution_by(0), tensor{})), "no fault");
  EXPECT_NE(reason_of(machine.on(contribution_by(0), float_input, different)),
            "no fault");
  EXPECT_NE(reason_of(machine.on(contribution_by(0, 1, 2), float_input)),
            "no fault");
}

TEST(TreeReduction, RestartedKeepsNothingOfTheLastStep) {
  const auto inputs = inputs_of<float>(2, 10);
  reduction machine{spec_of(2)};
  machine.on(contribution_by(0), inputs[0]);
  machine.start({1, 8, 3, 2, 0, 1});
  EXPECT_FALSE(machine.has(0));
  EXPECT_TRUE(is_ignored(machine.on(contribution_by(1), inputs[1])));
}

TEST(StepMetrics, AreSummedInTheTreeOfTheReplicas) {
  std::vector<step_metrics> reports;
  const auto losses = inputs_of<double>(5, 1);
  for (std::size_t r = 0; r < 5; ++r)
    reports.push_back({r + 1, {losses[r].item<double>() * 1e-3, double(r)}});
  step_metrics sum;
  sum_metrics(reports, sum);
  EXPECT_EQ(sum.examples, 15u);
  const auto at = [&](std::size_t r) { return reports[r].sums[0]; };
  EXPECT_EQ(sum.sums,
            (std::vector{((at(0) + at(1)) + (at(2) + at(3))) + at(4), 10.0}));
  sum_metrics({}, sum);
  EXPECT_EQ(sum, step_metrics{});
}
