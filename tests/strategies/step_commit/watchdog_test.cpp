#include "troupe/tests/strategies/step_commit/machine.hpp"

#include <gtest/gtest.h>

// Tests the functions that the watchdog calls. They tell whether there was
// progress since its last check, whether it must run, and which timeout
// applies.

using namespace troupe;
using namespace troupe::step_commit;
using namespace troupe::step_commit::testing;

namespace {

/// True if `call`, which calls a function of the state machine, counts as
/// progress.
template <class F>
bool counts_as_progress(chief_fixture& d, F&& call) {
  const auto before = d.machine.progress_count();
  d.record(call());
  return d.machine.progress_count() != before;
}

wait_report idle_report(const chief_fixture& d, std::uint32_t replica,
                        std::uint64_t step) {
  return {d.machine.generation(), step, false, replica, activity::idle, 0, {}};
}

} // namespace

// -- progress -----------------------------------------------------------------

TEST(StepCommitProgress, CountsAcknowledgementsRunsAndReportsOnce) {
  state_machine commit_machine{4, one_process(2)};
  auto before = commit_machine.progress_count();
  const auto moved = [&] {
    return std::exchange(before, commit_machine.progress_count());
  };
  commit_machine.open();
  EXPECT_NE(moved(), commit_machine.progress_count());
  for (int twice = 0; twice < 2; ++twice) {
    commit_machine.on(configured{1, 0, 1, 0});
    EXPECT_EQ(moved() == commit_machine.progress_count(), twice == 1);
  }
  commit_machine.on(configured{1, 2, 1, 0}); // unknown replica
  EXPECT_EQ(moved(), commit_machine.progress_count());
  commit_machine.run(0, 2);
  EXPECT_NE(moved(), commit_machine.progress_count());
  commit_machine.on(configured{1, 1, 1, 0});
  EXPECT_NE(moved(), commit_machine.progress_count());
  for (int twice = 0; twice < 2; ++twice) {
    commit_machine.on(step_done{1, 0, 0, 1, {}});
    EXPECT_EQ(moved() == commit_machine.progress_count(), twice == 1);
  }
}

/// At a timeout the machine sends probes or `configure` messages to the
/// replicas, or stops waiting for them. The timeout counts as progress, so that
/// the replicas have another full timeout to reply.
TEST(StepCommitProgress, CountsATimeoutInEveryPhase) {
  chief_fixture d{one_process(2)};
  const auto late = [&] { return d.machine.on_timeout(1000); };
  d.record(d.machine.run(0, 9));
  EXPECT_TRUE(counts_as_progress(d, late)) << "it probes";
  EXPECT_TRUE(counts_as_progress(d, late)) << "it aborts the run";
  EXPECT_TRUE(counts_as_progress(d, late)) << "it sends configure again";
  EXPECT_TRUE(counts_as_progress(d, late)) << "it stops waiting";
  EXPECT_EQ(d.count<aborted>(), 1u);
  d.record(d.machine.run(0, 9));
  EXPECT_TRUE(counts_as_progress(d, late)) << "it sends configure again";
  EXPECT_TRUE(counts_as_progress(d, late)) << "it stops waiting";
  EXPECT_EQ(d.count<aborted>(), 2u);
}

TEST(StepCommitProgress, CountsALossOnce) {
  chief_fixture d{two};
  const auto lose = [&](std::uint32_t r) {
    return counts_as_progress(d,
                              [&] { return d.machine.on_lost(r, "killed"); });
  };
  EXPECT_TRUE(lose(3));
  EXPECT_FALSE(lose(3));
  EXPECT_TRUE(counts_as_progress(
    d, [&] { return d.machine.on_process_lost(1, ec::peer_lost, "closed"); }));
  EXPECT_FALSE(lose(2)) << "it was lost with its process";
  EXPECT_TRUE(counts_as_progress(d, [&] { return d.machine.run(0, 1); }))
    << "it is rejected";
  EXPECT_EQ(d.count<aborted>(), 1u);
}

TEST(StepCommitProgress, CountsTheCallerOnlyIfReplicasWaitForIt) {
  chief_fixture d{one_process(1)};
  d.record(d.machine.run(0, 100));
  const auto hear = [&](std::uint64_t next) {
    return counts_as_progress(d, [&] { return d.machine.acknowledge(next); });
  };
  d.report_step(0, 0);
  EXPECT_FALSE(hear(1)) << "steps are granted";
  for (std::uint64_t s = 1; s < 9; ++s)
    d.report_step(0, s);
  ASSERT_FALSE(d.machine.busy()) << "all granted steps are committed";
  EXPECT_FALSE(hear(1)) << "repeated";
  EXPECT_TRUE(hear(2));
  EXPECT_TRUE(d.machine.busy());
}

// -- timeouts -----------------------------------------------------------------

TEST(StepCommitWatchdog, UsesTheLongTimeoutAfterReplicasAreConfigured) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on(thrown(1, 0)));
  EXPECT_FALSE(d.machine.probing());
  d.record(d.machine.on_timeout(1000));
  EXPECT_TRUE(d.machine.probing()) << "configure was sent again";
  d.acknowledge_all();
  EXPECT_FALSE(d.machine.probing());
  EXPECT_FALSE(d.machine.busy());
}

TEST(StepCommitWatchdog, ResendsConfigureInEveryGeneration) {
  chief_fixture d{one_process(2)};
  for (int i = 0; i < 2; ++i) {
    d.record(d.machine.run(0, 9));
    d.record(d.machine.on(thrown(d.machine.generation(), 0)));
    const auto before = d.count<send_configure>();
    d.record(d.machine.on_timeout(1000));
    EXPECT_EQ(d.count<send_configure>(), before + 1);
    d.record(d.machine.on_timeout(1000));
    EXPECT_EQ(d.count<send_configure>(), before + 1) << "once is enough";
    EXPECT_EQ(d.count<aborted>(), std::size_t(i + 1));
    EXPECT_FALSE(d.machine.probing());
    d.acknowledge_all();
  }
}

TEST(StepCommitWatchdog, ResendsConfigureAgainInTheNextGeneration) {
  state_machine commit_machine{4, one_process(2)};
  commit_machine.open();
  commit_machine.run(0, 9);
  commit_machine.on_timeout(1000);
  EXPECT_TRUE(commit_machine.probing());
  commit_machine.on_lost(0, "killed");
  EXPECT_EQ(commit_machine.generation(), 2u);
  EXPECT_FALSE(commit_machine.probing());
  const auto again = commit_machine.on_timeout(1000);
  EXPECT_EQ(std::get<send_configure>(again.at(0)).replicas,
            std::vector<std::uint32_t>{1});
}

TEST(StepCommitWatchdog, NamesReplicasThatDoNotAcknowledgeAndDropsTheRun) {
  state_machine commit_machine{4, one_process(3)};
  commit_machine.open();
  commit_machine.on(configured{1, 1, 1, 0});
  commit_machine.run(7, 1);
  EXPECT_TRUE(commit_machine.busy());
  EXPECT_EQ(commit_machine.behind(), (std::vector<std::uint32_t>{0, 2}));
  const auto again = commit_machine.on_timeout(1000);
  EXPECT_EQ(std::get<send_configure>(again.at(0)).message.generation, 1u);
  EXPECT_EQ(std::get<send_configure>(again.at(0)).message.replicas, 3u);
  const auto end = commit_machine.on_timeout(1000);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(std::get<aborted>(end[0]).report,
            (failure_report{
              .kind = failure_kind::not_configured,
              .code = ec::stalled,
              .replicas = {0, 2},
              .step = 7,
              .generation = 1,
              .timeout_ms = 1000,
            }));
  EXPECT_FALSE(commit_machine.busy());
  EXPECT_FALSE(commit_machine.probing());
  EXPECT_TRUE(commit_machine.on_timeout(1000).empty()) << "no run is active";
  commit_machine.on(configured{1, 0, 1, 0});
  EXPECT_TRUE(commit_machine.on(configured{1, 2, 1, 0}).empty())
    << "the run was dropped";
}

TEST(StepCommitWatchdog, HasNoEffectAfterTheRunEnded) {
  chief_fixture d{one_process(2)};
  EXPECT_TRUE(d.machine.on_timeout(1000).empty());
  d.record(d.machine.run(0, 1));
  d.commit_step(0);
  EXPECT_FALSE(d.machine.busy());
  EXPECT_TRUE(d.machine.on_timeout(1000).empty());
  EXPECT_EQ(d.count<completed>(), 1u);
}

// -- probes -------------------------------------------------------------------

TEST(StepCommitProbe, IsRepeatedIfReportsOfSurvivorsArriveLate) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 0u);
  d.report_step(0, 0);
  d.report_step(1, 0);
  EXPECT_TRUE(d.machine.probing()) << "lost replicas never report";
  d.record(d.machine.on(idle_report(d, 0, 0)));
  d.record(d.machine.on(idle_report(d, 1, 0)));
  ASSERT_EQ(d.count<send_probe>(), 2u);
  EXPECT_EQ(d.effects_of<send_probe>().back().message.step, 1u);
  d.record(d.machine.on(idle_report(d, 0, 0))); // answers the first probe
  d.record(d.machine.on(idle_report(d, 0, 1)));
  EXPECT_EQ(d.machine.generation(), 1u)
    << "replica 1 has not answered this probe";
  d.record(d.machine.on(idle_report(d, 1, 1)));
  EXPECT_EQ(d.machine.generation(), 2u);
  EXPECT_FALSE(d.machine.probing());
  d.acknowledge(0);
  d.acknowledge(1);
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::process_lost,
                                .code = ec::peer_lost,
                                .processes = {1},
                                .replicas = {2, 3},
                                .step = 1,
                                .cause = "closed",
                                .waits = {{false, 0, activity::idle, 0, {}},
                                          {false, 1, activity::idle, 0, {}}},
                              }));
}

TEST(StepCommitProbe, EndsWithTheFailureOfAReplicaAfterAProcessIsLost) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_process_lost(1, ec::unreachable, "silent"));
  d.record(d.machine.on(thrown(1, 0, "no such file")));
  d.acknowledge(0);
  d.acknowledge(1);
  ASSERT_EQ(d.count<aborted>(), 1u);
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::process_lost,
                                .code = ec::unreachable,
                                .processes = {1},
                                .replicas = {2, 3},
                                .cause = "silent",
                                .later_cause = "no such file",
                              }));
}

// A replica whose wait times out after the loss of a process is a waiting
// replica, whether it answers the probe or not.
TEST(StepCommitProbe, AddsTheWaitOfAReplicaWhoseCallTimedOut) {
  const role_wait wait{false, 0, activity::all_reduce, 3, {2, 3}};
  for (const bool answers : {false, true}) {
    chief_fixture d{two};
    d.record(d.machine.run(0, 9));
    d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
    if (answers)
      d.record(d.machine.on(
        wait_report{1, 0, false, 0, activity::all_reduce, 3, {2, 3}}));
    d.record(d.machine.on(failed{1,
                                 0,
                                 0,
                                 1,
                                 {.kind = failure_kind::wait_timed_out,
                                  .code = ec::stalled,
                                  .timeout_ms = 50,
                                  .waits = {wait}}}));
    d.acknowledge(0);
    d.acknowledge(1);
    EXPECT_EQ(d.abort_report(), (failure_report{
                                  .kind = failure_kind::process_lost,
                                  .code = ec::peer_lost,
                                  .processes = {1},
                                  .replicas = {2, 3},
                                  .cause = "closed",
                                  .waits = {wait},
                                }));
  }
}

namespace {

/// The failure of a replica whose wait for the sum of bucket 4 has timed out.
failed late_wait(std::uint32_t replica, std::vector<std::uint32_t> missing) {
  return {
    1,
    0,
    replica,
    1,
    {.kind = failure_kind::wait_timed_out,
     .code = ec::stalled,
     .timeout_ms = 50,
     .waits = {{false, replica, activity::all_reduce, 4, std::move(missing)}}}};
}

/// Replicas that the error of a wait names which has timed out. Replica 0 does
/// not know them, and `answer` is what the chief hears then.
template <class F>
std::vector<std::uint32_t> named_after(F&& answer) {
  chief_fixture d{one_process(3)};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on(late_wait(0, {})));
  EXPECT_EQ(d.count<aborted>(), 0u);
  answer(d);
  d.acknowledge_all();
  EXPECT_EQ(d.abort_report().kind, failure_kind::wait_timed_out);
  EXPECT_EQ(d.abort_report().replicas, std::vector<std::uint32_t>{0});
  return d.abort_report().waits.at(0).missing;
}

using ids = std::vector<std::uint32_t>;

} // namespace

TEST(StepCommitProbe, NamesWhatAWaitMissesThatHasTimedOut) {
  const auto is_idle = [](chief_fixture& d, std::uint32_t r) {
    d.record(d.machine.on(wait_report{1, 0, false, r, activity::idle, 0, {}}));
  };
  EXPECT_EQ(named_after([&](chief_fixture& d) { // which replica 2 adds
              is_idle(d, 0);
              d.record(d.machine.on(
                wait_report{1, 0, false, 1, activity::computing, 0, {}}));
              d.record(d.machine.on(
                wait_report{1, 0, false, 2, activity::all_reduce, 4, {1}}));
            }),
            ids{1});
  EXPECT_EQ(named_after([&](chief_fixture& d) { // which replica 1 adds
              is_idle(d, 0);
              d.record(d.machine.on(
                wait_report{1, 0, false, 2, activity::all_reduce, 4, {}}));
              d.record(d.machine.on(
                wait_report{1, 0, false, 1, activity::computing, 0, {}}));
            }),
            ids{1});
  EXPECT_EQ(named_after([&](chief_fixture& d) { // which does not answer
              is_idle(d, 0);
              d.record(d.machine.on(
                wait_report{1, 0, false, 2, activity::all_reduce, 4, {}}));
              d.record(d.machine.on_timeout(1000));
            }),
            ids{1});
  EXPECT_EQ(named_after([&](chief_fixture& d) { // whose wait is late too
              d.record(d.machine.on(late_wait(2, {1})));
            }),
            ids{1});
  EXPECT_EQ(named_after([&](chief_fixture& d) {
              d.record(d.machine.on(late_wait(2, {})));
              EXPECT_EQ(d.count<aborted>(), 0u);
              d.record(d.machine.on_timeout(1000));
            }),
            (ids{1, 2}));
}

TEST(StepCommitProbe, OfALateWaitEndsWithALoss) {
  chief_fixture d{two};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on(late_wait(0, {})));
  d.record(d.machine.on_process_lost(1, ec::peer_lost, "closed"));
  for (const std::uint32_t r : {0, 1})
    d.record(
      d.machine.on(wait_report{1, 0, false, r, activity::idle, 0, {2, 3}}));
  d.acknowledge(0);
  d.acknowledge(1);
  EXPECT_EQ(d.abort_report().kind, failure_kind::process_lost);
  EXPECT_EQ(d.abort_report().processes, ids{1});
}

/// The replica that adds a sum need not wait for it.
TEST(StepCommitProbe, NamesWhatAReplicaOutsideOfTheStepMisses) {
  chief_fixture d{one_process(3)};
  d.record(d.machine.run(0, 9));
  d.report_step(2, 0);
  d.record(d.machine.on_timeout(1000));
  for (const std::uint32_t r : {0, 1})
    d.record(
      d.machine.on(wait_report{1, 0, false, r, activity::all_reduce, r, {}}));
  d.record(d.machine.on(wait_report{1, 0, false, 2, activity::idle, 0, {2}}));
  d.record(d.machine.on_timeout(1000));
  d.acknowledge_all();
  EXPECT_EQ(d.abort_report().waits,
            (std::vector<role_wait>{{false, 0, activity::all_reduce, 0, {2}},
                                    {false, 1, activity::all_reduce, 1, {2}}}));
}

TEST(StepCommitProbe, AcceptsReportsOfItsStepAndGenerationOnly) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(0, 9));
  d.record(d.machine.on_timeout(1000));
  for (const auto& [epoch, step] :
       {std::pair{0u, 0u}, std::pair{2u, 0u}, std::pair{1u, 1u}})
    d.record(d.machine.on(
      wait_report{epoch, step, false, 0, activity::computing, 0, {}}));
  d.record(d.machine.on_timeout(1000));
  d.record(
    d.machine.on(wait_report{2, 0, false, 0, activity::computing, 0, {}}));
  d.acknowledge_all();
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::stalled,
                                .code = ec::stalled,
                                .timeout_ms = 1000,
                                .unresponsive = {0, 1},
                              }));
}

TEST(StepCommitProbe, DistinguishesAReducerFromTheReplicaOfTheSameId) {
  chief_fixture d{one_process(2)};
  d.record(d.machine.run(0, 9));
  d.report_step(1, 0);
  d.record(d.machine.on_timeout(1000));
  d.record(d.machine.on(wait_report{1, 0, true, 0, activity::reducing, 5, {}}));
  d.record(d.machine.on(wait_report{1, 0, true, 9, activity::idle, 0, {}}));
  d.record(d.machine.on(
    // replica 1 is idle, because it has reported step 0
    wait_report{1, 0, false, 1, activity::idle, 0, {}}));
  d.record(d.machine.on(wait_report{1, 0, true, 2, activity::idle, 0, {}}));
  d.record(d.machine.on(
    wait_report{1, 0, false, 2, activity::idle, 0, {}})); // unknown replica
  d.record(d.machine.on_timeout(1000));
  d.acknowledge_all();
  EXPECT_EQ(d.abort_report(), (failure_report{
                                .kind = failure_kind::stalled,
                                .code = ec::stalled,
                                .timeout_ms = 1000,
                                .waits = {{true, 0, activity::reducing, 5, {}}},
                                .unresponsive = {0},
                              }));
}
