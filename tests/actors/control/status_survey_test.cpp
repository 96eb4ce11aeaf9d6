#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/simulation/simulator.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

// The probes that the chief sends when it is asked for the status of the job.

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// Confirms its configuration, and then computes: it answers no probe.
replica_actor::behavior_type
busy_replica(replica_actor::pointer, owner_actor owner, std::size_t* probes) {
  return {[](const tree::part&, const tensor&, const tensor&) {},
          [probes](const commit::probe&) { ++*probes; },
          [owner](const commit::seat& x) {
            caf::anon_send(owner, commit::seated{x.epoch, x.replica, 1, 0});
          },
          [](const commit::order&, const step_ref&) {},
          [](const commit::grant&) {},
          [](const tree::sum&, const tensor&) {},
          [](const tree::share&, const tensor&) {},
          [](const visit_ref&) {}};
}

} // namespace

TEST(StatusSurvey, ProbesAComputingReplicaOncePerStep) {
  std::size_t probes = 0;
  simulation::sim in;
  const auto desk =
    std::make_shared<work_desk>(std::make_shared<sleeping_waiter>());
  const auto by = std::make_shared<direct_transport>(1, false);
  chief_actor lead =
    in.spawn(chief, chief_options{.replicas = 1, .where = {}},
             outbox{party{party::role::chief, 0}, by, nullptr});
  cast_ref all;
  all.replicas.push_back(in.spawn(busy_replica, owner_actor{lead}, &probes));
  all.callers.push_back({desk, {}});
  caf::anon_send(lead, std::move(all));
  desk->begin();
  caf::anon_send(lead, muster::join{0, 1, 0, 5, 0}, step_ref{});
  in.settle();
  caf::scoped_actor watcher{in.sys, true};
  for (int round = 0; round < 5; ++round) {
    auto asked = watcher->request(lead, 3600s, atom::status_v);
    in.advance(1s);
    ASSERT_TRUE(watcher->has_next_message());
    asked.receive(
      [](const job_status& x) {
        EXPECT_NE(x.waiting.find("replica 0"), std::string::npos) << x.waiting;
      },
      [](const caf::error&) { ADD_FAILURE(); });
  }
  EXPECT_EQ(probes, 1u);
}
