#include "troupe/actors/control/local_agent.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

// The agent of a process whose chief runs in another process.

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using said = std::shared_ptr<std::vector<std::string>>;

/// Stands for the chief's proxy and records the messages about steps.
office_actor::behavior_type office(office_actor::pointer, said by_replicas) {
  return {[](const commit::seated&) {},
          [by_replicas](const commit::report& x) {
            by_replicas->push_back("report " + std::to_string(x.step));
          },
          [by_replicas](const commit::failed& x) {
            by_replicas->push_back("failed " + std::to_string(x.step));
          },
          [](const commit::blame&) {},
          [by_replicas](const owner_batch& x) {
            std::string text;
            for (const auto& one : x.seated)
              text += "configured " + std::to_string(one.epoch) + ' ';
            for (const auto& one : x.reports)
              text += "report " + std::to_string(one.step) + ' ';
            for (const auto& one : x.blames)
              text += "wait " + std::to_string(one.step) + ' ';
            text.pop_back();
            by_replicas->push_back(text);
          },
          [](const muster::join&) {},
          [](const run_heard&) {},
          [by_replicas](const muster::stop& x) {
            by_replicas->push_back("stop " + std::to_string(x.run));
          }};
}

caf::behavior gate_role() {
  return {[](int) {}};
}

replica_actor::behavior_type replica_role(replica_actor::pointer) {
  return {[](const tree::part&, const tensor&, const tensor&) {},
          [](const commit::probe&) {},
          [](const commit::seat&) {},
          [](const commit::order&, const step_ref&) {},
          [](const commit::grant&) {},
          [](const tree::sum&, const tensor&) {},
          [](const tree::share&, const tensor&) {},
          [](const visit_ref&) {}};
}

/// A local agent in its first run, with replicas that answer nothing.
struct lone_steward {
  explicit lone_steward(std::size_t count = 0) {
    const auto by = std::make_shared<direct_transport>(1, false);
    it = in.spawn(
      steward,
      steward_options{
        .leader = "worker 0", .process = 1, .listener = desk, .together = 3},
      outbox{party{party::role::steward, 1}, by, nullptr});
    desk->begin();
    chief = in.spawn(office, by_replicas);
    gate = in.spawn(gate_role);
    caf::anon_send(it, muster::join{1, 1, 9, 5}, step_ref{});
    for (std::size_t i = 0; i < count; ++i)
      replicas.push_back(in.spawn(replica_role));
    caf::anon_send(it, household_ref{chief, replicas});
    caf::anon_send(it, gate.address());
    in.settle();
  }
  ~lone_steward() {
    chief = nullptr;
    replicas.clear();
  }

  void chief_ends(caf::exit_reason why) {
    caf::anon_send_exit(chief, why);
    in.settle();
  }
  void gate_ends() {
    caf::anon_send_exit(gate, caf::exit_reason::user_shutdown);
    in.settle();
  }

  void reports(std::uint64_t step) {
    caf::anon_send(it, commit::report{0, step, 0, 1, {}});
    in.settle();
  }
  /// Messages that reached the chief since the last call.
  std::vector<std::string> reached() { return std::exchange(*by_replicas, {}); }

  /// Result of the run for its caller: the next step, or the error.
  std::string told() {
    try {
      const auto next = desk->follow([](const commit_record&, bool) {}, 0ms);
      return next ? "step " + std::to_string(*next) : "nothing yet";
    } catch (const failure& e) {
      return to_string(e.code) + ": " + e.what();
    }
  }

  std::shared_ptr<work_desk> desk =
    std::make_shared<work_desk>(std::make_shared<sleeping_waiter>());
  said by_replicas = std::make_shared<std::vector<std::string>>();
  simulation::sim in;
  steward_inside it;
  office_actor chief;
  std::vector<replica_actor> replicas;
  caf::actor gate;
};

constexpr auto in_peace = caf::exit_reason::user_shutdown;
constexpr auto death = caf::exit_reason::kill;

} // namespace

using texts = std::vector<std::string>;

TEST(LocalAgent, SendsReportsInBatches) {
  lone_steward x;
  x.reports(9);
  x.reports(10);
  EXPECT_EQ(x.reached(), texts{});
  x.reports(11);
  EXPECT_EQ(x.reached(), texts{"report 9 report 10 report 11"});
}

TEST(LocalAgent, SendsTheReportsOfTheLastStepWithoutDelay) {
  lone_steward x; // 5 steps from 9
  x.reports(12);
  EXPECT_EQ(x.reached(), texts{});
  x.reports(13);
  EXPECT_EQ(x.reached(), texts{"report 12 report 13"});
}

TEST(LocalAgent, SendsTheAnswersOfItsReplicasInOneMessage) {
  lone_steward x{3};
  for (std::uint32_t r = 0; r < 2; ++r)
    caf::anon_send(x.it, commit::seated{4, r, 1, 0});
  x.in.settle();
  EXPECT_EQ(x.reached(), texts{});
  caf::anon_send(x.it, commit::seated{4, 2, 1, 0});
  x.in.settle();
  EXPECT_EQ(x.reached(), texts{"configured 4 configured 4 configured 4"});
  caf::anon_send(x.it, commit::blame{4, 9, false, 0, {}, 0, {}});
  x.in.advance(max_answer_delay);
  EXPECT_EQ(x.reached(), texts{"wait 9"}) << "two replicas do not answer";
}

TEST(LocalAgent, RejectsCommitsFarAheadOfTheCaller) {
  const auto told_of = [](std::uint64_t steps, std::uint64_t heard,
                          const std::vector<std::uint64_t>& committed) {
    lone_steward x; // a step window of 4
    caf::anon_send(x.it, muster::join{1, 2, 9, steps, 0}, step_ref{});
    caf::anon_send(x.it, run_heard{1, 2, heard});
    for (const auto step : committed)
      caf::anon_send(x.it, run_commits{2, {commit_record{step, 0, {}, {}}}});
    x.in.settle();
    return x.told();
  };
  const std::string rule =
    "protocol: worker 0, the leader, violated the protocol: it committed step ";
  EXPECT_EQ(told_of(100, 9, {16}), "nothing yet") << "within 2 step windows";
  EXPECT_EQ(told_of(100, 9, {17}), rule + "17 where step 9 is next");
  EXPECT_EQ(told_of(100, 12, {19}), "nothing yet");
  EXPECT_EQ(told_of(5, 9, {14}), rule + "14 where step 9 is next")
    << "the run has steps 9 to 13";
}

TEST(LocalAgent, RejectsCommitsThatItsCallerDoesNotAcknowledge) {
  lone_steward x;
  caf::anon_send(x.it, muster::join{1, 2, 9, 100, 0}, step_ref{});
  x.in.settle();
  for (std::uint64_t step = 9; step <= 17; ++step) { // in order
    caf::anon_send(x.it, run_commits{2, {commit_record{step, 0, {}, {}}}});
    x.in.settle();
  }
  EXPECT_EQ(x.told(), "protocol: worker 0, the leader, violated the protocol: "
                      "it committed step 17 where step 17 is next")
    << "the caller has acknowledged none";
}

TEST(LocalAgent, SendsTheLastReportsWhenAllReplicasHaveReported) {
  lone_steward x{2};
  caf::anon_send(x.it, muster::join{1, 2, 9, 5, 0}, step_ref{});
  x.in.settle();
  caf::anon_send(x.it, commit::report{0, 13, 0, 1, {}});
  x.in.settle();
  EXPECT_EQ(x.reached(), texts{});
  caf::anon_send(x.it, commit::report{0, 13, 1, 1, {}});
  x.in.settle();
  EXPECT_EQ(x.reached(), texts{"report 13 report 13"});
}

TEST(LocalAgent, SendsReportsAfterTheMaximumBatchDelay) {
  lone_steward x;
  for (const std::uint64_t step : {9, 10}) {
    x.reports(step);
    x.in.advance(longest_in_company - 1ms);
    EXPECT_EQ(x.reached(), texts{});
    x.in.advance(1ms);
    EXPECT_EQ(x.reached(), texts{"report " + std::to_string(step)});
  }
}

TEST(LocalAgent, SendsBatchedReportsBeforeOtherMessages) {
  lone_steward x;
  x.reports(9);
  caf::anon_send(x.it, commit::failed{0, 10, 0, 1, commit::cause::lost, "x"});
  x.in.settle();
  EXPECT_EQ(x.reached(), (texts{"report 9", "failed 10"}));
}

TEST(LocalAgent, ReportsTheEndOfARunThatArrivesAfterTheLossOfTheLeader) {
  for (const auto why : {in_peace, death}) {
    lone_steward x;
    x.chief_ends(why);
    x.in.advance(2s);
    caf::anon_send(x.it, run_ended{1, 9});
    x.gate_ends();
    x.in.advance(10s);
    EXPECT_EQ(x.told(), "step 9");
  }
}

TEST(LocalAgent, PrefersTheLeadersReasonToTheLossOfTheLeader) {
  lone_steward x;
  x.chief_ends(in_peace);
  x.in.advance(2s);
  caf::anon_send(x.it, run_failed{1, ec::invalid, "no such file"});
  x.gate_ends();
  x.in.advance(10s);
  EXPECT_EQ(x.told(), "invalid: no such file");
}

TEST(LocalAgent, NamesALeaderThatShutDownDuringAStep) {
  lone_steward x;
  x.gate_ends();
  x.chief_ends(in_peace);
  x.in.advance(1s);
  EXPECT_EQ(x.told(), "peer_lost: worker 0, the leader, has shut down before "
                      "the end of step 0");
}

TEST(LocalAgent, BoundsTheWaitForTheLastMessagesOfALostLeader) {
  lone_steward x;
  x.chief_ends(death);
  x.in.advance(10s);
  EXPECT_TRUE(mentions(
    x.told(), "peer_lost: worker 0, the leader, was lost in step 0: "));
}
