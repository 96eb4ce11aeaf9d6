#include "troupe/tensors/context.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/replica_groups.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

namespace troupe {
namespace {

/// Tests code on a fiber in each kind of replica group. Fibers run on two
/// threads of actors, on the simulator's thread, or on the caller's thread.
class FiberIn : public ::testing::TestWithParam<test::group_kind> {
protected:
  test::any_group group{GetParam(), {.replicas = 2}};
};

INSTANTIATE_TEST_SUITE_P(Group, FiberIn, test::all_kinds, test::name_of_kind);

/// Contributes to a bucket and waits until both replicas have contributed.
float wait(step_context& context, std::uint32_t bucket = 0) {
  context.contribute(bucket,
                     tensor::of<float>({1}, {1.0f + float(context.replica)}));
  return context.sum(bucket).item<float>();
}

TEST_P(FiberIn, TwoThatWaitInCatchBlocksRethrowTheirOwnException) {
  std::array<std::string, 2> caught;
  const auto fn = [&](step_context& context) {
    try {
      try {
        throw std::runtime_error("of " + std::to_string(context.replica));
      } catch (...) {
        wait(context);
        throw;
      }
    } catch (const std::exception& e) {
      caught[context.replica] = e.what();
    }
  };
  EXPECT_EQ(group->run({.steps = 1, .step = fn, .on_commit = {}}), 1u);
  EXPECT_EQ(caught[0], "of 0");
  EXPECT_EQ(caught[1], "of 1");
}

/// Increments `ends` when it is destroyed.
struct destruction_counter {
  std::atomic<int>& ends;
  ~destruction_counter() { ++ends; }
};

TEST_P(FiberIn, AnAbortedStepRunsDestructors) {
  std::atomic<int> ends = 0, went_on = 0;
  const auto fn = [&](step_context& context) {
    destruction_counter outer{ends};
    std::vector<std::string> held(100, std::string(100, 'x'));
    [&] {
      destruction_counter inner{ends};
      if (context.replica == 1)
        throw std::runtime_error("no more");
      wait(context);
      ++went_on;
    }();
  };
  EXPECT_ANY_THROW(group->run({.steps = 1, .step = fn, .on_commit = {}}));
  EXPECT_EQ(ends, 4);
  EXPECT_EQ(went_on, 0);
}

TEST_P(FiberIn, AnAbortThatIsCaughtIsThrownAgainByEachWait) {
  std::atomic<int> swallowed = 0, went_on = 0;
  const auto fn = [&](step_context& context) {
    if (context.replica == 1)
      throw std::runtime_error("no more");
    for (std::uint32_t i = 0; i < 3; ++i)
      try {
        wait(context, i);
        ++went_on;
      } catch (...) {
        ++swallowed;
      }
    wait(context, 3);
    ++went_on;
  };
  EXPECT_ANY_THROW(group->run({.steps = 1, .step = fn, .on_commit = {}}));
  EXPECT_EQ(swallowed, 3);
  EXPECT_EQ(went_on, 0);
  // The next step works as usual.
  std::array<float, 2> sums{};
  const auto next = [&](step_context& context) {
    sums[context.replica] = wait(context);
  };
  EXPECT_EQ(group->run({.steps = 1, .step = next, .on_commit = {}}), 1u);
  EXPECT_EQ(sums, (std::array<float, 2>{3, 3}));
}

TEST_P(FiberIn, ATapeOnEachRecordsOnlyItsOwnOps) {
  std::array<double, 2> found{};
  const auto fn = [&](step_context& context) {
    tape t; // computes d/dx of x^3 + x, with one op between two waits
    const auto input =
      t.watch(tensor::of<double>({1}, {2.0 + context.replica}));
    auto output = input * input;
    wait(context, 0);
    output = output * input;
    wait(context, 1);
    output = output + input;
    wait(context, 2);
    found[context.replica] =
      t.gradient(output, std::array{input})[0].item<double>();
  };
  EXPECT_EQ(group->run({.steps = 1, .step = fn, .on_commit = {}}), 1u);
  EXPECT_EQ(found, (std::array<double, 2>{13, 28}));
}

TEST_P(FiberIn, WaitsAThousandTimesInOneStep) {
  std::array<double, 2> sums{};
  const auto fn = [&](step_context& context) {
    for (std::uint32_t i = 0; i < 1000; ++i)
      sums[context.replica] += wait(context, i);
  };
  EXPECT_EQ(group->run({.steps = 1, .step = fn, .on_commit = {}}), 1u);
  EXPECT_EQ(sums, (std::array<double, 2>{3000, 3000}));
}

} // namespace
} // namespace troupe
