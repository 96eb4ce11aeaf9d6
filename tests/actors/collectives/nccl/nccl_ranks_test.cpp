#include "troupe/actors/collectives/nccl/communicator/communicator_ids.hpp"
#include "troupe/actors/collectives/nccl/nccl_setup.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_nccl.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace {

using namespace troupe;
using troupe::testing::fake_nccl;
using lists = std::vector<placement::id_list>;

placement of(const lists& ids) {
  return placement{ids};
}

TEST(PlacementOnDevices, DevicesTakeTheReplicasOfTheirProcessInTurn) {
  EXPECT_EQ(placement_on_devices(of({{0, 1}, {2, 3}}), 2),
            of({{0}, {1}, {2}, {3}}));
  EXPECT_EQ(placement_on_devices(of({{0, 1, 4}, {2, 3, 5}}), 2),
            of({{0, 4}, {1}, {2, 5}, {3}}));
  EXPECT_EQ(placement_on_devices(of({{0, 1, 2}, {3}}), 1),
            of({{0, 1, 2}, {3}}));
}

TEST(PlacementOnDevices, ADeviceWithoutReplicasIsNoRank) {
  EXPECT_EQ(placement_on_devices(of({{0}, {}, {1, 2}}), 2),
            of({{0}, {1}, {2}}));
}

TEST(NcclRanks, AReplicaHasTheRankOfItsDevice) {
  const auto nccl = std::make_shared<fake_nccl>(fake_nccl::options{});
  const local_placement processes{of({{0, 2}, {1, 3, 4}}), 1};
  const nccl_ranks ranks{processes,
                         {nccl->make_device(), nccl->make_device()},
                         std::make_shared<communicator_ids>(),
                         std::make_shared<threaded_blocking_calls>(),
                         nccl_options{}};
  const auto rank_of = [&](std::uint32_t replica) {
    return ranks.of_replica(replica)->collectives()->ranks();
  };
  EXPECT_EQ(ranks.of_replica(1), ranks.of_replica(4));
  EXPECT_NE(ranks.of_replica(1), ranks.of_replica(3));
  EXPECT_EQ(rank_of(1), (local_placement{of({{0}, {2}, {1, 4}, {3}}), 2}));
  EXPECT_EQ(rank_of(3).process, 3u);
}

/// Two strategies of a process have the same device.
TEST(NcclSetup, UsesNoDeviceOfAnotherSetupOfTheProcess) {
  using namespace std::chrono_literals;
  const auto nccl = std::make_shared<fake_nccl>(fake_nccl::options{});
  const auto shared = nccl->make_device(), other = nccl->make_device();
  using enum device_sum_policy;
  const auto setup_of = [](device_sum_policy policy, const auto&... devices) {
    device_sum_options options{.policy = policy};
    options.devices = {devices...};
    return std::make_unique<nccl_setup>(options);
  };
  auto first = setup_of(required, shared);
  EXPECT_TRUE(first->make_for_one_process(1, 1s));
  EXPECT_TRUE(first->make_for_one_process(1, 1s)); // in its next view
  auto second = setup_of(if_possible, other, shared);
  EXPECT_FALSE(second->make_for_one_process(2, 1s));
  EXPECT_TRUE(setup_of(required, other)->make_for_one_process(1, 1s));
  try {
    setup_of(required, shared)->make_for_one_process(1, 1s);
    FAIL() << "no error";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "this process cannot use NCCL: another strategy of this "
                 "process adds on its devices through NCCL; correct this, or "
                 "let the host add the sums");
  }
  first.reset();
  EXPECT_TRUE(second->make_for_one_process(2, 1s));
}

TEST(ThreadedBlockingCalls, AreWaitedForAtTheEnd) {
  struct promises {
    std::promise<void> begun, ends;
  };
  const auto shared = std::make_shared<promises>();
  auto owned = std::make_shared<int>();
  const std::weak_ptr<int> of_call = owned;
  auto calls = std::make_unique<threaded_blocking_calls>(std::chrono::hours{1});
  calls->post([shared, owned = std::move(owned)] {
    shared->begun.set_value();
    shared->ends.get_future().wait();
  });
  shared->begun.get_future().wait();
  std::thread releases{[shared] { shared->ends.set_value(); }};
  calls.reset();
  EXPECT_TRUE(of_call.expired()) << "the call has not returned";
  releases.join();
}

TEST(ThreadedBlockingCalls, ThatNeverReturnDelayTheEndForALimitedTime) {
  const auto ends = std::make_shared<std::promise<void>>();
  const auto has_ended = std::make_shared<std::promise<void>>();
  auto done = has_ended->get_future();
  auto calls =
    std::make_unique<threaded_blocking_calls>(std::chrono::milliseconds{1});
  calls->post([ends, has_ended] {
    ends->get_future().wait();
    has_ended->set_value();
  });
  calls.reset(); // returns, although the call has not
  ends->set_value();
  done.wait();
}

TEST(CommunicatorIds, KeepABoundedNumber) {
  communicator_ids ids;
  for (std::uint64_t generation = 1; generation <= 100; ++generation)
    ids.publish(generation, {});
  EXPECT_FALSE(ids.find(100 - communicator_ids::max_ids));
  EXPECT_TRUE(ids.find(100));
  EXPECT_FALSE(ids.find(99)) << "no rank asks for it any more";
  EXPECT_TRUE(ids.find(100)) << "another rank asks for it";
}

} // namespace
