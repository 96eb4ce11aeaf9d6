#include "troupe/actors/control/local_agent.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <numeric>

// Tests of a local agent without a chief: an actor of the test records the
// messages that the agent sends to the chief.

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using message_log = std::shared_ptr<std::vector<std::string>>;

/// Replaces the chief's proxy and records the messages about steps.
chief_remote_actor::behavior_type chief_proxy(chief_remote_actor::pointer,
                                              message_log log) {
  return {[](const step_commit::configured&) {},
          [log](const step_commit::step_done& batch) {
            log->push_back("report " + std::to_string(batch.step));
          },
          [log](const step_commit::failed& batch) {
            log->push_back("failed " + std::to_string(batch.step));
          },
          [](const step_commit::wait_report&) {},
          [log](const owner_batch& batch) {
            std::string text;
            for (const auto& one : batch.configured)
              text += "configured " + std::to_string(one.generation) + ' ';
            for (const auto& one : batch.steps_done)
              text += "report " + std::to_string(one.step) + ' ';
            for (const auto& one : batch.wait_reports)
              text += "wait " + std::to_string(one.step) + ' ';
            text.pop_back();
            log->push_back(text);
          },
          [](const run_barrier::join&) {},
          [](const commit_ack&) {},
          [log](const run_barrier::stop& batch) {
            log->push_back("stop " + std::to_string(batch.run));
          },
          [](atom::status) { return job_status{}; }};
}

caf::behavior skeleton_role() {
  return {[](int) {}};
}

replica_actor::behavior_type replica_role(replica_actor::pointer) {
  return {[](const tree::contribution&, const tensor&, const tensor&) {},
          [](const step_commit::probe&) {},
          [](const step_commit::configure&) {},
          [](const step_commit::start_steps&, const step_function_ref&) {},
          [](const step_commit::grant&) {},
          [](const tree::reduced_slice&, const tensor&) {},
          [](const tree::gather_contribution&, const tensor&) {},
          [](const replica_task&) {}};
}

/// Returns the placement of a job whose process 1 hosts the first `count`
/// replicas. The leader hosts one more.
local_placement placement_of(std::uint32_t count) {
  placement::id_list ids(count);
  std::iota(ids.begin(), ids.end(), 0u);
  return {placement{{{count}, ids}}, 1};
}

/// A local agent in its first run. Its replicas never answer.
struct local_agent_fixture {
  explicit local_agent_fixture(std::uint32_t count = 0)
    : completions{std::make_shared<completion_queue>(
      std::make_shared<blocking_wait_strategy>(),
      named_processes{{"worker 0", "worker 1"}, placement_of(count).job})} {
    const auto transport = std::make_shared<local_transport>(1, false);
    agent =
      simulator.spawn(local_agent,
                      local_agent_options{.placement = placement_of(count),
                                          .listener = completions,
                                          .report_batch = 3},
                      message_sender{role_id{role_id::kind::local_agent, 1},
                                     transport, nullptr});
    completions->begin_run();
    chief = simulator.spawn(chief_proxy, chief_log);
    chief_skeleton = simulator.spawn(skeleton_role);
    caf::anon_send(agent, run_barrier::join{1, 1, 9, 5}, step_function_ref{});
    for (std::uint32_t i = 0; i < count; ++i)
      replicas.push_back(simulator.spawn(replica_role));
    caf::anon_send(agent, local_roles{chief, replicas});
    caf::anon_send(agent, chief_skeleton.address());
    simulator.run_until_idle();
  }
  ~local_agent_fixture() {
    chief = nullptr;
    replicas.clear();
  }

  void terminate_chief(caf::exit_reason reason) {
    caf::anon_send_exit(chief, reason);
    simulator.run_until_idle();
  }
  void terminate_skeleton() {
    caf::anon_send_exit(chief_skeleton, caf::exit_reason::user_shutdown);
    simulator.run_until_idle();
  }

  void report_step(std::uint64_t step, std::uint32_t replica = 0) {
    caf::anon_send(agent, step_commit::step_done{0, step, replica, 1, {}});
    simulator.run_until_idle();
  }
  /// Returns the messages that reached the chief since the last call.
  std::vector<std::string> sent_to_chief() {
    return std::exchange(*chief_log, {});
  }

  /// Returns what the caller of the run receives: the next step, or the error.
  std::string run_result() {
    try {
      const auto next =
        completions->wait_for_run([](const commit_record&, bool) {}, 0ms);
      return next ? "step " + std::to_string(*next) : "nothing yet";
    } catch (const job_error& e) {
      return to_string(e.code) + ": " + e.what();
    }
  }

  /// Returns the report of the error that the caller of the run receives.
  failure_report failure_of_run() {
    try {
      completions->wait_for_run([](const commit_record&, bool) {}, 0ms);
    } catch (const job_error& e) {
      return e.report();
    }
    ADD_FAILURE() << "no failure";
    return {};
  }

  std::shared_ptr<completion_queue> completions;
  message_log chief_log = std::make_shared<std::vector<std::string>>();
  simulation::simulator simulator;
  local_agent_internal_actor agent;
  chief_remote_actor chief;
  std::vector<replica_actor> replicas;
  caf::actor chief_skeleton;
};

constexpr auto normal_exit = caf::exit_reason::user_shutdown;
constexpr auto killed = caf::exit_reason::kill;

} // namespace

using texts = std::vector<std::string>;

TEST(LocalAgent, SendsReportsInBatches) {
  local_agent_fixture fixture;
  fixture.report_step(9);
  fixture.report_step(10);
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
  fixture.report_step(11);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 9 report 10 report 11"});
}

TEST(LocalAgent, SendsReportsWithManySumsInSmallerBatches) {
  local_agent_fixture fixture;
  const auto report = [&](std::uint64_t step) {
    const step_metrics metrics{1, std::vector<double>(40'000)};
    caf::anon_send(fixture.agent,
                   step_commit::step_done{0, step, 0, 1, metrics});
    fixture.simulator.run_until_idle();
  };
  report(9);
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
  report(10); // a batch of three would not fit a control frame
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 9 report 10"});
}

TEST(LocalAgent, SendsTheReportsOfTheLastStepWithoutDelay) {
  local_agent_fixture fixture; // the run has 5 steps, from step 9
  fixture.report_step(12);
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
  fixture.report_step(13);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 12 report 13"});
}

TEST(LocalAgent, SendsTheAnswersOfItsReplicasInOneMessage) {
  local_agent_fixture fixture{3};
  for (std::uint32_t r = 0; r < 2; ++r)
    caf::anon_send(fixture.agent, step_commit::configured{4, r, 1, 0});
  fixture.simulator.run_until_idle();
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
  caf::anon_send(fixture.agent, step_commit::configured{4, 2, 1, 0});
  fixture.simulator.run_until_idle();
  EXPECT_EQ(fixture.sent_to_chief(),
            texts{"configured 4 configured 4 configured 4"});
  caf::anon_send(fixture.agent,
                 step_commit::wait_report{4, 9, false, 0, {}, 0, {}});
  fixture.simulator.advance(max_answer_delay);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"wait 9"})
    << "two replicas do not answer";
}

TEST(LocalAgent, RejectsCommitsFarAheadOfTheCaller) {
  const auto run_result_of = [](std::uint64_t steps, std::uint64_t acknowledged,
                                const std::vector<std::uint64_t>& committed) {
    local_agent_fixture fixture; // its step window is 4
    caf::anon_send(fixture.agent, run_barrier::join{1, 2, 9, steps, 0},
                   step_function_ref{});
    caf::anon_send(fixture.agent, commit_ack{1, 2, acknowledged});
    for (const auto step : committed)
      caf::anon_send(fixture.agent,
                     commit_batch{2, {commit_record{step, 0, {}, {}}}});
    fixture.simulator.run_until_idle();
    return fixture.run_result();
  };
  const std::string rule =
    "protocol: worker 0, the leader, violated the protocol: it committed step ";
  EXPECT_EQ(run_result_of(100, 9, {16}), "nothing yet")
    << "within 2 step windows";
  EXPECT_EQ(run_result_of(100, 9, {17}), rule + "17 where step 9 is next");
  EXPECT_EQ(run_result_of(100, 12, {19}), "nothing yet");
  EXPECT_EQ(run_result_of(5, 9, {14}), rule + "14 where step 9 is next")
    << "the run has steps 9 to 13";
}

TEST(LocalAgent, RejectsCommitsThatItsCallerDoesNotAcknowledge) {
  local_agent_fixture fixture;
  caf::anon_send(fixture.agent, run_barrier::join{1, 2, 9, 100, 0},
                 step_function_ref{});
  fixture.simulator.run_until_idle();
  for (std::uint64_t step = 9; step <= 17; ++step) { // in order
    caf::anon_send(fixture.agent,
                   commit_batch{2, {commit_record{step, 0, {}, {}}}});
    fixture.simulator.run_until_idle();
  }
  EXPECT_EQ(fixture.run_result(),
            "protocol: worker 0, the leader, violated the protocol: "
            "it committed step 17 where step 17 is next")
    << "the caller has acknowledged none";
}

TEST(LocalAgent, SendsTheLastReportsWhenAllReplicasHaveReported) {
  local_agent_fixture fixture{2};
  caf::anon_send(fixture.agent, run_barrier::join{1, 2, 9, 5, 0},
                 step_function_ref{});
  fixture.simulator.run_until_idle();
  fixture.report_step(9, 0);
  fixture.report_step(9, 1); // so another batch would wait
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 9 report 9"});
  fixture.report_step(13, 0);
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
  fixture.report_step(13, 1);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 13 report 13"});
}

TEST(LocalAgent, SendsTheReportsOfTheFirstStepWithoutDelay) {
  local_agent_fixture fixture{2};
  caf::anon_send(fixture.agent, run_barrier::join{1, 1, 3, 5, 0},
                 step_function_ref{});
  fixture.report_step(3, 0);
  fixture.report_step(3, 1);
  caf::anon_send(fixture.agent, run_barrier::join{1, 2, 9, 5, 0},
                 step_function_ref{});
  fixture.simulator.run_until_idle();
  fixture.sent_to_chief(); // another batch would wait now
  fixture.report_step(9, 0);
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
  fixture.report_step(9, 1);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 9 report 9"});
  fixture.report_step(10, 0);
  fixture.report_step(10, 1);
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
}

TEST(LocalAgent, SendsACompleteStepAtOnceIfNoneWasSentInTheMaximumBatchDelay) {
  local_agent_fixture fixture{2};
  caf::anon_send(fixture.agent, run_barrier::join{1, 2, 9, 50, 0},
                 step_function_ref{});
  fixture.simulator.advance(1s);
  fixture.report_step(9, 0);
  fixture.report_step(9, 1);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 9 report 9"});
  fixture.simulator.advance(max_batch_delay);
  fixture.report_step(10, 0);
  EXPECT_EQ(fixture.sent_to_chief(), texts{}) << "half of a step";
  fixture.report_step(10, 1);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 10 report 10"});
  fixture.simulator.advance(2 * max_batch_delay); // no timer is left
  fixture.report_step(11, 0);
  fixture.simulator.advance(max_batch_delay);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 11"}) << "half of a step";
  fixture.report_step(11, 1);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 11"}) << "the other half";
}

TEST(LocalAgent, LetsTheNextStepWaitForTheRestOfTheMaximumBatchDelay) {
  local_agent_fixture fixture{1};
  fixture.simulator.advance(1s);
  caf::anon_send(fixture.agent, run_barrier::join{1, 2, 8, 50, 0},
                 step_function_ref{});
  fixture.report_step(9);
  fixture.report_step(10);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 9"});
  fixture.simulator.advance(max_batch_delay - 1ms);
  EXPECT_EQ(fixture.sent_to_chief(), texts{});
  fixture.simulator.advance(1ms);
  EXPECT_EQ(fixture.sent_to_chief(), texts{"report 10"});
}

TEST(LocalAgent, SendsReportsAfterTheMaximumBatchDelay) {
  local_agent_fixture fixture;
  for (const std::uint64_t step : {9, 10}) {
    fixture.report_step(step);
    fixture.simulator.advance(max_batch_delay - 1ms);
    EXPECT_EQ(fixture.sent_to_chief(), texts{});
    fixture.simulator.advance(1ms);
    EXPECT_EQ(fixture.sent_to_chief(), texts{"report " + std::to_string(step)});
  }
}

TEST(LocalAgent, SendsBatchedReportsBeforeOtherMessages) {
  local_agent_fixture fixture;
  fixture.report_step(9);
  caf::anon_send(fixture.agent,
                 step_commit::failed{0, 10, 0, 1, {.cause = "x"}});
  fixture.simulator.run_until_idle();
  EXPECT_EQ(fixture.sent_to_chief(), (texts{"report 9", "failed 10"}));
}

TEST(LocalAgent, ReportsTheEndOfARunThatArrivesAfterTheLossOfTheLeader) {
  for (const auto reason : {normal_exit, killed}) {
    local_agent_fixture fixture;
    fixture.terminate_chief(reason);
    fixture.simulator.advance(2s);
    caf::anon_send(fixture.agent, run_completed{1, 9});
    fixture.terminate_skeleton();
    fixture.simulator.advance(10s);
    EXPECT_EQ(fixture.run_result(), "step 9");
  }
}

TEST(LocalAgent, PrefersTheLeadersReasonToTheLossOfTheLeader) {
  local_agent_fixture fixture;
  fixture.terminate_chief(normal_exit);
  fixture.simulator.advance(2s);
  caf::anon_send(fixture.agent, run_aborted{1, {.cause = "no such file"}});
  fixture.terminate_skeleton();
  fixture.simulator.advance(10s);
  EXPECT_EQ(fixture.run_result(), "invalid: no such file");
}

TEST(LocalAgent, RejectsAReportThatIsOutOfBounds) {
  for (const auto& report :
       {failure_report{.processes = {2}}, failure_report{.replicas = {1}},
        failure_report{.cause = std::string(max_cause_bytes + 1, 'x')}}) {
    local_agent_fixture fixture; // of 2 processes and 1 replica
    caf::anon_send(fixture.agent, run_aborted{1, report});
    fixture.simulator.run_until_idle();
    EXPECT_EQ(fixture.run_result(),
              "protocol: worker 0, the leader, violated the protocol: it sent "
              "a malformed report of a failure");
  }
}

TEST(LocalAgent, ReportsTheLossOfTheLeaderAndTheWaitsAsData) {
  local_agent_fixture fixture{2};
  caf::anon_send(fixture.agent, run_barrier::join{1, 2, 9, 5},
                 step_function_ref{});
  fixture.simulator.run_until_idle();
  fixture.terminate_skeleton();
  fixture.terminate_chief(normal_exit);
  for (const std::uint32_t r : {0, 1})
    caf::anon_send(
      fixture.agent,
      step_commit::wait_report{0, 9, false, r, activity::all_reduce, 3, {2}});
  fixture.simulator.run_until_idle();
  const failure_report loss{
    .kind = failure_kind::process_lost,
    .code = ec::peer_lost,
    .processes = {0},
    .replicas = {2},
    .run = 2,
    .step = 9,
    .waits = {{false, 0, activity::all_reduce, 3, {2}},
              {false, 1, activity::all_reduce, 3, {2}}},
  };
  EXPECT_EQ(fixture.failure_of_run(), loss);
}

TEST(LocalAgent, NamesALeaderThatShutDownDuringAStep) {
  local_agent_fixture fixture;
  fixture.terminate_skeleton();
  fixture.terminate_chief(normal_exit);
  fixture.simulator.advance(1s);
  EXPECT_EQ(fixture.run_result(),
            "peer_lost: worker 0, the leader, has shut down before "
            "the end of step 0");
}

TEST(LocalAgent, BoundsTheWaitForTheLastMessagesOfALostLeader) {
  local_agent_fixture fixture;
  fixture.terminate_chief(killed);
  fixture.simulator.advance(10s);
  EXPECT_TRUE(
    mentions(fixture.run_result(),
             "peer_lost: worker 0, the leader, was lost in step 0: "));
}
