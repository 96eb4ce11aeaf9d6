#include "troupe/training/loop/options/metric_list.hpp"
#include "troupe/training/parameter_server/synchronous_steps.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <vector>

// What the chief of a training knows of its synchronous steps.

namespace troupe {
namespace {

using namespace std::chrono_literals;
using contributors = std::vector<std::uint32_t>;

/// Three replicas divide batches of 8 rows: 3, 3 and 2 examples.
constexpr std::int64_t batch_rows = 8;

replica_report report(std::uint64_t step, std::uint64_t examples,
                      bool is_finite = true) {
  std::vector<double> sums(2, 0);
  sums[metric_list::loss_sum] = static_cast<double>(examples);
  sums[metric_list::skipped] = is_finite ? 0 : 1;
  return {step, batch_rows, {examples, sums}};
}

synchronous_steps::options options(bool has_table_consistency = false) {
  return {3, has_table_consistency, {1, 2, 3}, [](std::uint64_t) {}};
}

void report_all(synchronous_steps& steps, std::uint64_t step) {
  steps.on_report(0, report(step, 3));
  steps.on_report(1, report(step, 3));
  steps.on_report(2, report(step, 2));
}

TEST(SynchronousSteps, CountWhenAllServersHaveThem) {
  synchronous_steps steps{options()};
  report_all(steps, 0);
  const auto factors = steps.decide(0, {0, 1, 2});
  EXPECT_TRUE(factors.has_learning_rate);
  EXPECT_EQ(factors.learning_rate, 1);
  EXPECT_EQ(factors.scale, 1 / 8.F);
  EXPECT_FALSE(factors.is_skipped);
  EXPECT_FALSE(steps.is_complete());
  EXPECT_TRUE(steps.wait(0ms).decided.empty());
  steps.on_decided(1);
  EXPECT_TRUE(steps.is_complete());
  const auto news = steps.wait(0ms);
  ASSERT_EQ(news.decided.size(), 1u);
  EXPECT_EQ(news.decided[0].examples, 8u);
  EXPECT_EQ(news.decided[0].sums[metric_list::loss_sum], 8);
  EXPECT_TRUE(news.dropped.empty());
  EXPECT_TRUE(steps.wait(0ms).decided.empty());
  // The decision on a step says that all servers have those before.
  report_all(steps, 1);
  report_all(steps, 2);
  EXPECT_EQ(steps.decide(1, {0, 1, 2}).learning_rate, 2);
  steps.decide(2, {0, 1, 2});
  EXPECT_EQ(steps.wait(0ms).decided.size(), 1u);
}

/// A moved replica makes a step again, and its report replaces the first one.
TEST(SynchronousSteps, CountAReplicaOnce) {
  synchronous_steps steps{options()};
  report_all(steps, 0);
  steps.on_report(2, report(0, 1));
  steps.decide(0, {0, 1, 2});
  steps.on_report(2, report(0, 2)); // too late
  steps.on_decided(1);
  steps.on_report(2, report(0, 2)); // and later
  const auto news = steps.wait(0ms);
  ASSERT_EQ(news.decided.size(), 1u);
  EXPECT_EQ(news.decided[0].examples, 7u);
  steps.on_report(2, report(0, 2));
  EXPECT_TRUE(steps.wait(0ms).dropped.empty());
}

TEST(SynchronousSteps, DropTheContributionsThatAreNotNamed) {
  synchronous_steps steps{options()};
  steps.on_report(1, report(0, 3));
  steps.on_report(2, report(0, 2));
  EXPECT_EQ(steps.decide(0, {1, 2}).scale, 1 / 5.F);
  steps.on_decided(1);
  const auto news = steps.wait(0ms);
  ASSERT_EQ(news.dropped.size(), 1u);
  EXPECT_EQ(news.dropped[0].step, 0u);
  EXPECT_EQ(news.dropped[0].replica, 0u);
  EXPECT_EQ(news.dropped[0].examples, 3u);
  EXPECT_FALSE(news.dropped[0].metrics);
  steps.on_report(0, report(0, 3));
  EXPECT_TRUE(steps.wait(0ms).dropped.empty());
}

/// Replicas that update tables are listed when they have reported.
TEST(SynchronousSteps, WaitForTheReportsOfReplicasThatUpdateTables) {
  synchronous_steps steps{options(true)};
  steps.on_report(1, report(0, 3));
  steps.on_report(2, report(0, 2));
  steps.decide(0, {1, 2});
  steps.on_decided(1);
  EXPECT_TRUE(steps.wait(0ms).dropped.empty());
  for (int i = 0; i < 2; ++i) // the second time from a moved replica
    steps.on_report(0, report(0, 3, false));
  const auto news = steps.wait(0ms);
  ASSERT_EQ(news.dropped.size(), 1u);
  ASSERT_TRUE(news.dropped[0].metrics);
  EXPECT_EQ(news.dropped[0].metrics->sums[metric_list::skipped], 1);
  // One that has reported before the decision is listed at once.
  report_all(steps, 1);
  steps.decide(1, {0, 2});
  EXPECT_EQ(steps.wait(0ms).dropped.at(0).replica, 1u);
}

/// A late replica has reported step 2 to another worker, and steps 0 and 1 to
/// none.
TEST(SynchronousSteps, ListContributionsWhoseReportsWereLost) {
  synchronous_steps steps{options(true)};
  for (std::uint64_t step = 0; step < 3; ++step) {
    steps.on_report(0, report(step, 3));
    steps.on_report(2, report(step, 2));
    steps.decide(step, {0, 2});
  }
  steps.on_decided(3);
  EXPECT_EQ(steps.wait(0ms).decided.size(), 3u);
  EXPECT_FALSE(steps.is_complete());
  steps.on_report(1, report(2, 3));
  EXPECT_TRUE(steps.is_complete());
  const auto news = steps.wait(0ms);
  ASSERT_EQ(news.dropped.size(), 3u);
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(news.dropped[step].step, step);
    EXPECT_EQ(news.dropped[step].examples, 3u);
    EXPECT_EQ(news.dropped[step].metrics.has_value(), step == 2);
  }
}

/// The fit ends while the report of a late replica is missing.
TEST(SynchronousSteps, ListContributionsWithoutAReportAtTheEnd) {
  synchronous_steps steps{options(true)};
  steps.on_report(0, report(0, 3));
  steps.on_report(2, report(0, 2));
  steps.decide(0, {0, 2});
  steps.on_decided(1);
  EXPECT_FALSE(steps.is_complete());
  EXPECT_TRUE(steps.wait(0ms).dropped.empty());
  steps.list_missing();
  const auto news = steps.wait(0ms);
  ASSERT_EQ(news.dropped.size(), 1u);
  EXPECT_EQ(news.dropped[0].replica, 1u);
  EXPECT_EQ(news.dropped[0].examples, 3u);
  EXPECT_FALSE(news.dropped[0].metrics);
  // Without tables of their own, such a replica is not waited for.
  synchronous_steps others{options()};
  others.on_report(0, report(0, 3));
  others.decide(0, {0});
  others.on_decided(1);
  EXPECT_TRUE(others.is_complete());
}

TEST(SynchronousSteps, AreSkippedIfAContributionIsNotFinite) {
  synchronous_steps steps{options()};
  report_all(steps, 0);
  steps.on_report(1, report(0, 3, false));
  EXPECT_TRUE(steps.decide(0, {0, 1, 2}).is_skipped);
  steps.on_decided(1);
  EXPECT_EQ(steps.wait(0ms).decided.at(0).sums[metric_list::skipped], 3);
  report_all(steps, 1);
  steps.on_report(1, report(1, 3, false));
  EXPECT_FALSE(steps.decide(1, {0, 2}).is_skipped); // not of this one
}

/// All examples are in the contributions that are dropped.
TEST(SynchronousSteps, WithoutExamplesChangeNothing) {
  synchronous_steps steps{options()};
  for (std::uint32_t r = 0; r < 3; ++r)
    steps.on_report(r, report(0, 0));
  const auto factors = steps.decide(0, {0, 1, 2});
  EXPECT_TRUE(factors.is_skipped);
  EXPECT_EQ(factors.scale, 1);
}

TEST(SynchronousSteps, EndWithAnErrorAfterTheNews) {
  auto how = options();
  how.on_not_finite = [](std::uint64_t step) {
    if (step == 1)
      throw std::domain_error("not finite");
  };
  synchronous_steps steps{how};
  report_all(steps, 0);
  steps.decide(0, {0, 1, 2});
  report_all(steps, 1);
  steps.on_report(2, report(1, 2, false));
  EXPECT_THROW(steps.decide(1, {0, 1, 2}), std::domain_error);
  EXPECT_TRUE(steps.is_complete()); // the first step is everywhere
  steps.fail(std::make_exception_ptr(std::domain_error("not finite")));
  steps.fail(
    std::make_exception_ptr(std::runtime_error("the chief has ended")));
  EXPECT_EQ(steps.wait(0ms).decided.size(), 1u);
  EXPECT_THROW(steps.wait(1h), std::domain_error);
}

TEST(SynchronousSteps, AreNotDecidedAfterTheEnd) {
  synchronous_steps steps{options()};
  report_all(steps, 0);
  steps.decide(0, {0, 1, 2});
  steps.close();
  EXPECT_FALSE(steps.is_complete());
  report_all(steps, 1);
  EXPECT_THROW(steps.decide(1, {0, 1, 2}), std::runtime_error);
  EXPECT_TRUE(steps.is_complete());
  steps.fail(
    std::make_exception_ptr(std::runtime_error("the chief has ended")));
  EXPECT_EQ(steps.wait(0ms).decided.size(), 1u);
  EXPECT_TRUE(steps.wait(0ms).decided.empty());
}

/// The chief ends while the last decision is on its way.
TEST(SynchronousSteps, EndWithAnErrorOfTheChiefAlsoAfterTheEnd) {
  synchronous_steps steps{options()};
  report_all(steps, 0);
  steps.decide(0, {0, 1, 2});
  steps.close();
  steps.fail(std::make_exception_ptr(std::domain_error("a server is stalled")));
  EXPECT_THROW(steps.wait(1h), std::domain_error);
}

} // namespace
} // namespace troupe
