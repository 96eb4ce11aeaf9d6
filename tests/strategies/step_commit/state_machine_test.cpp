#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace troupe;
using namespace troupe::step_commit;
using step_commit::testing::one_process;
using step_commit::testing::thrown;

namespace {

constexpr std::uint64_t step_window = 4;

/// A state machine whose effects are recorded. All its replicas are configured.
struct one_process_chief {
  explicit one_process_chief(std::uint32_t replicas)
    : replicas{replicas}, machine{step_window, one_process(replicas)} {
    record(machine.open());
    acknowledge_all();
  }

  void record(reaction&& what) {
    for (auto& x : what)
      effects.push_back(std::move(x));
    const auto commits = effects_of<committed>();
    if (acknowledges && !commits.empty())
      for (auto& x : machine.acknowledge(commits.back().record.step + 1))
        effects.push_back(std::move(x));
  }
  void acknowledge_all() {
    for (std::uint32_t r = 0; r < replicas; ++r)
      record(machine.on(configured{machine.generation(), r, 1, 0}));
  }
  void report_step(std::uint32_t r, std::uint64_t step) {
    record(machine.on(
      step_done{machine.generation(), step, r, 1, {r + 1, {double(step)}}}));
  }

  /// Returns the recorded effects of one type.
  template <class T>
  std::vector<T> effects_of() const {
    std::vector<T> out;
    for (const auto& x : effects)
      if (auto* it = std::get_if<T>(&x))
        out.push_back(*it);
    return out;
  }
  template <class T>
  T last() const {
    const auto found = effects_of<T>();
    EXPECT_FALSE(found.empty());
    return found.empty() ? T{} : found.back();
  }

  std::uint32_t replicas;
  state_machine machine;
  reaction effects;
  bool acknowledges = true; ///< The caller acknowledges each commit.
};

} // namespace

TEST(StepCommit, GrantsTheWindowAndOneMoreStepPerCommit) {
  one_process_chief d{2};
  d.record(d.machine.run(10, 6));
  EXPECT_EQ(d.last<send_start>().message.first, 10u);
  EXPECT_EQ(d.last<send_start>().message.until, 14u);
  d.report_step(0, 10);
  EXPECT_TRUE(d.effects_of<committed>().empty());
  d.report_step(1, 10);
  EXPECT_EQ(d.last<committed>().record.step, 10u);
  EXPECT_EQ(d.last<send_grant>().message.until, 15u);
  EXPECT_EQ(d.last<committed>().record.total.examples, 3u);
  EXPECT_EQ(d.last<committed>().record.contributors,
            (std::vector<std::uint32_t>{0, 1}));
}

TEST(StepCommit, CommitsInOrderForAnyOrderOfReports) {
  std::mt19937_64 rng{3};
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed 3, round " + std::to_string(round));
    one_process_chief d{3};
    d.record(d.machine.run(0, 20));
    std::uint64_t next[3] = {};
    for (int left = 60; left > 0;) {
      const auto r = std::uint32_t(rng() % 3);
      const auto granted = d.effects_of<send_grant>().empty()
                             ? step_window
                             : d.last<send_grant>().message.until;
      if (next[r] == std::min<std::uint64_t>(granted, 20))
        continue;
      d.report_step(r, next[r]);
      if (rng() % 2)
        d.report_step(r, next[r]); // repeated
      ++next[r];
      --left;
    }
    const auto commits = d.effects_of<committed>();
    ASSERT_EQ(commits.size(), 20u);
    for (std::uint64_t s = 0; s < 20; ++s)
      EXPECT_EQ(commits[s].record.step, s);
    EXPECT_EQ(d.last<completed>().next, 20u);
    EXPECT_FALSE(d.machine.busy());
  }
}

TEST(StepCommit, StopGrantsNoMoreSteps) {
  one_process_chief d{2};
  d.record(d.machine.run(0, 100));
  d.record(d.machine.stop());
  for (std::uint64_t s = 0; s < step_window; ++s) {
    EXPECT_TRUE(d.effects_of<completed>().empty());
    d.report_step(0, s);
    d.report_step(1, s);
  }
  EXPECT_EQ(d.last<completed>().next, step_window);
  EXPECT_TRUE(d.effects_of<send_grant>().empty());
}

TEST(StepCommit, StartsStepsWhenAllReplicasAreConfigured) {
  state_machine commit_machine{step_window, one_process(2)};
  commit_machine.open();
  EXPECT_TRUE(commit_machine.run(0, 1).empty());
  EXPECT_TRUE(commit_machine.on(configured{1, 0, 1, 0}).empty());
  EXPECT_TRUE(commit_machine.on(configured{1, 0, 1, 0}).empty()); // repeated
  EXPECT_EQ(commit_machine.on(configured{1, 1, 1, 0}).size(), 1u);
}

TEST(StepCommit, IgnoresReportsOfAnOlderGeneration) {
  one_process_chief d{1};
  d.record(d.machine.run(0, 2));
  d.record(d.machine.on(thrown(1, 0)));
  EXPECT_EQ(d.machine.generation(), 2u);
  EXPECT_TRUE(d.machine.on(step_done{1, 0, 0, 1, {}}).empty());
  d.acknowledge_all();
  EXPECT_EQ(d.last<aborted>().report.cause, "broken");
  d.record(d.machine.run(0, 1));
  EXPECT_TRUE(d.machine.on(step_done{1, 0, 0, 1, {}}).empty());
  d.report_step(0, 0);
  EXPECT_EQ(d.last<committed>().record.generation, 2u);
}

TEST(StepCommit, ReportsTheReasonWhenAllReplicasLeftTheStep) {
  one_process_chief d{3};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on(thrown(1, 2)));
  EXPECT_EQ(d.last<send_configure>().message.generation, 2u);
  d.record(d.machine.on(configured{2, 0, 1, 0}));
  d.record(d.machine.on(configured{2, 2, 1, 0}));
  EXPECT_TRUE(d.effects_of<aborted>().empty());
  d.record(d.machine.on(configured{2, 1, 1, 0}));
  EXPECT_EQ(d.effects_of<aborted>().size(), 1u);
}

TEST(StepCommit, ALostReplicaAbortsTheRunAndAllLaterOnes) {
  one_process_chief d{2};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_lost(1, "killed"));
  EXPECT_TRUE(
    d.effects_of<aborted>().empty()); // replica 0 has not left its step
  d.record(d.machine.on(configured{2, 0, 1, 0}));
  EXPECT_EQ(d.last<aborted>().report.code, ec::peer_lost);
  EXPECT_EQ(d.last<aborted>().report.kind, failure_kind::replica_lost);
  EXPECT_EQ(d.last<aborted>().report.replicas, std::vector<std::uint32_t>{1});
  d.record(d.machine.run(0, 9));
  EXPECT_EQ(d.last<aborted>().report.kind, failure_kind::replica_missing);
}

TEST(StepCommit, ProbesBeforeItAborts) {
  one_process_chief d{3};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_timeout(5000));
  EXPECT_EQ(d.last<send_probe>().message.step, 0u);
  d.record(
    d.machine.on(wait_report{1, 0, false, 0, activity::all_reduce, 7, {}}));
  d.record(
    d.machine.on(wait_report{1, 0, false, 2, activity::all_gather, 8, {1}}));
  d.record(
    d.machine.on(wait_report{1, 0, true, 3, activity::reducing, 7, {1}}));
  d.record(d.machine.on_timeout(5000));
  d.acknowledge_all();
  EXPECT_EQ(d.last<aborted>().report,
            (failure_report{
              .kind = failure_kind::stalled,
              .code = ec::stalled,
              .timeout_ms = 5000,
              .waits = {{false, 0, activity::all_reduce, 7, {}},
                        {false, 2, activity::all_gather, 8, {1}},
                        {true, 3, activity::reducing, 7, {1}}},
              .unresponsive = {1},
            }));
}

TEST(StepCommit, AReportDuringAProbeIsProgress) {
  one_process_chief d{2};
  d.record(d.machine.run(0, 1));
  d.record(d.machine.on_timeout(5000));
  EXPECT_TRUE(d.machine.probing());
  d.report_step(0, 0);
  EXPECT_FALSE(d.machine.probing());
  d.report_step(1, 0);
  EXPECT_EQ(d.last<completed>().next, 1u);
}

TEST(StepCommit, AReportOfAStepNotGrantedIsAProtocolError) {
  one_process_chief d{1};
  d.record(d.machine.run(0, 1));
  d.report_step(0, 5);
  d.acknowledge_all();
  EXPECT_EQ(d.last<aborted>().report.code, ec::protocol);
}

TEST(StepCommit, BeginsANewGenerationUnlessTheRunIsContiguous) {
  one_process_chief d{1};
  d.record(d.machine.run(0, 1));
  d.report_step(0, 0);
  d.record(d.machine.run(1, 1));
  EXPECT_EQ(d.machine.generation(), 1u);
  d.report_step(0, 1);
  d.record(d.machine.run(0, 1));
  EXPECT_EQ(d.machine.generation(), 2u);
}

TEST(StepCommit, GrantsAtMostTwoWindowsBeyondTheAcknowledgedStep) {
  one_process_chief d{1};
  d.acknowledges = false;
  d.record(d.machine.run(0, 100));
  for (std::uint64_t s = 0; s < 2 * step_window; ++s)
    d.report_step(0, s);
  EXPECT_EQ(d.last<send_grant>().message.until, 2 * step_window);
  EXPECT_FALSE(
    d.machine.busy()); // replicas wait for the caller's acknowledgement
  d.record(d.machine.acknowledge(1));
  EXPECT_EQ(d.last<send_grant>().message.until, 2 * step_window + 1);
  EXPECT_TRUE(d.machine.busy());
  EXPECT_TRUE(d.machine.acknowledge(1).empty());   // repeated
  EXPECT_TRUE(d.machine.acknowledge(100).empty()); // not committed
}

TEST(StepCommit, StopCompletesAtOnceIfAllGrantedStepsAreCommitted) {
  one_process_chief d{1};
  d.acknowledges = false;
  d.record(d.machine.run(0, 100));
  for (std::uint64_t s = 0; s < 2 * step_window; ++s)
    d.report_step(0, s);
  d.record(d.machine.stop());
  EXPECT_EQ(d.last<completed>().next, 2 * step_window);
}
