#include "troupe/tests/actors/collectives/packet_fault.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

using namespace troupe;
using namespace troupe::testing;

/// A process applies its fault injector not only to packets, but also to the
/// messages of its roles, such as `step_done`.
TEST(ClusterFaults, ApplyToTheMessagesOfTheProcessThatHasThem) {
  const auto injector = std::make_shared<step_fault_injector>(
    message_kind::step_done, 3,
    fault_injector::injected_fault{.duplicated = true});
  cluster_fixture processes{2};
  processes.adjust_options = [&](std::uint32_t i, cluster_options& x) {
    if (i == 1)
      x.faults = injector;
  };
  processes.join_with_groups();
  std::vector<outcome> outcomes(2);
  processes.for_each_member([&](member& x, std::uint32_t i) {
    x.group->run(outcomes[i].request(0, 6));
  });
  EXPECT_GT(injector->times, 0);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(processes.members[i].problem, "");
    EXPECT_EQ(outcomes[i].commits.size(), 6u) << "each step is committed once";
  }
}
