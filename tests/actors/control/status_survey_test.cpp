#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/simulation/simulator.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

// Tests of the probes that the chief sends when a client asks for the status of
// the job.

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// A replica that answers `configure` and then computes forever, so it answers
/// no probe.
replica_actor::behavior_type busy_replica(replica_actor::pointer,
                                          replica_owner_actor owner,
                                          std::size_t* probes) {
  return {[](const tree::contribution&, const tensor&, const tensor&) {},
          [probes](const step_commit::probe&) { ++*probes; },
          [owner](const step_commit::configure& x) {
            caf::anon_send(
              owner, step_commit::configured{x.generation, x.replica, 1, 0});
          },
          [](const step_commit::start_steps&, const step_function_ref&) {},
          [](const step_commit::grant&) {},
          [](const tree::reduced_slice&, const tensor&) {},
          [](const tree::gather_contribution&, const tensor&) {},
          [](const replica_task&) {}};
}

} // namespace

TEST(StatusSurvey, ProbesAComputingReplicaOncePerStep) {
  std::size_t probes = 0;
  simulation::simulator simulator;
  const auto completions = std::make_shared<completion_queue>(
    std::make_shared<blocking_wait_strategy>());
  const auto transport = std::make_shared<local_transport>(1, false);
  chief_actor chief_handle = simulator.spawn(
    chief, chief_options{},
    message_sender{role_id{role_id::kind::chief, 0}, transport, nullptr});
  job_roles all;
  all.replicas.push_back(
    simulator.spawn(busy_replica, replica_owner_actor{chief_handle}, &probes));
  all.clients.push_back({completions, {}});
  caf::anon_send(chief_handle, std::move(all));
  completions->begin_run();
  caf::anon_send(chief_handle, run_barrier::join{0, 1, 0, 5, 0},
                 step_function_ref{});
  simulator.run_until_idle();
  caf::scoped_actor watcher{simulator.sys, true};
  for (int round = 0; round < 5; ++round) {
    auto asked = watcher->request(chief_handle, 3600s, atom::status_v);
    simulator.advance(1s);
    ASSERT_TRUE(watcher->has_next_message());
    asked.receive(
      [](const job_status& x) {
        EXPECT_NE(x.stall_reason.find("replica 0"), std::string::npos)
          << x.stall_reason;
      },
      [](const caf::error&) { ADD_FAILURE(); });
  }
  EXPECT_EQ(probes, 1u);
}
