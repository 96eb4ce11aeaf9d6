#include "troupe/tests/actors/membership/clusters.hpp"

#include <future>

using namespace troupe;
using namespace troupe::testing;

/// The rejection explains more than the later failure to connect.
TEST(ClusterRejection, IsReportedThoughTheLeaderListensNoLonger) {
  company_of it{2};
  it.patience = 1500ms;
  auto nobody =
    it.members[0].at->serve("another", "control",
                            {[](const net::hello&) { return net::verdict{}; },
                             [](const net::hello&, net::arrived&&) {}});
  std::promise<void> refused;
  it.members[1].at = door_that_hears_a_refusal(refused);
  std::thread early{[&] { it.join({1}); }};
  EXPECT_EQ(refused.get_future().wait_for(60s), std::future_status::ready);
  nobody.reset();
  it.members[0].at.reset();
  early.join();
  EXPECT_EQ(it.members[1].code, ec::refused) << it.members[1].problem;
  EXPECT_TRUE(mentions(it.members[1].problem, "chief 0 rejected worker 1: "))
    << it.members[1].problem;
  it.members[1].at.reset(); // before the promise that its log sets
}
