#include "troupe/tests/actors/membership/clusters.hpp"

#include <future>

using namespace troupe;
using namespace troupe::testing;

/// A worker that was rejected, and then cannot connect any more, reports the
/// rejection, because the rejection explains more than the failure to connect.
TEST(ClusterRejection, IsReportedThoughTheLeaderListensNoLonger) {
  cluster_fixture processes{2};
  processes.start_timeout = 1500ms;
  auto registration = processes.members[0].router->serve(
    "another", "control",
    {[](const net::hello&) { return net::hello_response{}; },
     [](const net::hello&, net::accepted_connection&&) {}});
  processes.members[0].router->open();
  std::promise<void> refused;
  processes.members[1].router = make_router_that_reports_rejection(refused);
  std::thread early{[&] { processes.join({1}); }};
  EXPECT_EQ(refused.get_future().wait_for(60s), std::future_status::ready);
  registration.reset();
  processes.members[0].router.reset();
  early.join();
  EXPECT_EQ(processes.members[1].code, ec::refused)
    << processes.members[1].problem;
  EXPECT_TRUE(
    mentions(processes.members[1].problem, "chief 0 rejected worker 1: "))
    << processes.members[1].problem;
  processes.members[1].router.reset(); // its log uses the promise
}
