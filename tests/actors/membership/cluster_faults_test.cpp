#include "troupe/tests/actors/collectives/packet_fault.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

using namespace troupe;
using namespace troupe::testing;

/// The fault injector of a process applies to the messages between its roles,
/// and not only to packets.
TEST(ClusterFaults, ApplyToTheMessagesOfTheProcessThatHasThem) {
  const auto seam = std::make_shared<meddler>(subject::report, 3,
                                              fault_seam::fate{.twice = true});
  company_of it{2};
  it.change = [&](std::uint32_t i, cluster_options& x) {
    if (i == 1)
      x.faults = seam;
  };
  it.gather();
  std::vector<outcome> seen(2);
  it.each([&](member& x, std::uint32_t i) { x.with->run(seen[i].job(0, 6)); });
  EXPECT_GT(seam->times, 0);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(it.members[i].problem, "");
    EXPECT_EQ(seen[i].commits.size(), 6u) << "each step is committed once";
  }
}
