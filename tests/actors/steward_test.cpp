#include "troupe/actors/steward.hpp"
#include "troupe/actors/types.hpp"
#include "troupe/actors/work_desk.hpp"
#include "troupe/simulation/sim.hpp"
#include "troupe/tests/actors/crews.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

// A process whose chief, elsewhere, ends.

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// A proxy of a chief that does nothing.
office_actor::behavior_type office(office_actor::pointer) {
  return {[](const commit::seated&) {},
          [](const commit::report&) {},
          [](const commit::failed&) {},
          [](const commit::blame&) {},
          [](const muster::join&) {},
          [](const run_heard&) {},
          [](atom::stop) {}};
}

caf::behavior gate_role() {
  return {[](int) {}};
}

/// A steward amid its first run. It has no replicas.
struct lone_steward {
  lone_steward() {
    const auto by = std::make_shared<direct_transport>(1, false);
    it = in.spawn(
      steward,
      steward_options{.leader = "worker 0", .process = 1, .listener = desk},
      outbox{party{party::role::steward, 1}, by, nullptr});
    desk->begin();
    chief = in.spawn(office);
    gate = in.spawn(gate_role);
    caf::anon_send(it, muster::join{1, 1, 9, 5}, step_ref{});
    caf::anon_send(it, household_ref{chief, {}});
    caf::anon_send(it, gate.address());
    in.settle();
  }
  ~lone_steward() { chief = nullptr; }

  void chief_ends(caf::exit_reason why) {
    caf::anon_send_exit(chief, why);
    in.settle();
  }
  void gate_ends() {
    caf::anon_send_exit(gate, caf::exit_reason::user_shutdown);
    in.settle();
  }

  /// What the caller of `run` hears in the end: a step, or what went wrong.
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
  simulation::sim in;
  steward_inside it;
  office_actor chief;
  caf::actor gate;
};

constexpr auto in_peace = caf::exit_reason::user_shutdown;
constexpr auto death = caf::exit_reason::kill;

} // namespace

TEST(Steward, HearsTheEndOfTheWorkThoughNewsOfALeaderThatLeftCameFirst) {
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

TEST(Steward, HearsTheLeadersOwnReasonBeforeThatItLeft) {
  lone_steward x;
  x.chief_ends(in_peace);
  x.in.advance(2s);
  caf::anon_send(x.it, run_failed{1, ec::invalid, "no such file"});
  x.gate_ends();
  x.in.advance(10s);
  EXPECT_EQ(x.told(), "invalid: no such file");
}

TEST(Steward, NamesALeaderThatLeftAmidAStep) {
  lone_steward x;
  x.gate_ends();
  x.chief_ends(in_peace);
  x.in.advance(1s);
  EXPECT_EQ(x.told(), "peer_lost: worker 0, which leads, has left without an "
                      "end of step 0");
}

TEST(Steward, NamesALeaderThatDiedAndDoesNotWaitForeverForItsLastWords) {
  lone_steward x;
  x.chief_ends(death);
  x.in.advance(10s);
  EXPECT_TRUE(mentions(
    x.told(), "peer_lost: worker 0, which leads, was lost in step 0: "));
}
