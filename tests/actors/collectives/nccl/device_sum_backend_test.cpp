#include "troupe/actors/collectives/lane_replica_backend.hpp"
#include "troupe/actors/collectives/nccl/device_sum_backend.hpp"
#include "troupe/tests/actors/collectives/lane_backends.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_ranks.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr device gpu{device_kind::cuda, 0};

} // namespace

// Lanes can send a replica that waits a message to wake it, but NCCL cannot. So
// a replica that waits for a sum on devices has to ask again by itself.
TEST(DeviceSumBackend, WakesNoReplicaOnceTheGenerationHasASumOnDevices) {
  test::simulated_devices devices;
  const auto nccl = std::make_shared<fake_nccl>(
    fake_nccl::options{.seed = 1, .steps_in_queries = true});
  const auto job = placement::contiguous({1});
  const lane_backends lanes{job, "stream", {.wake = [] {}}};
  device_sum_backend replica{
    std::make_shared<lane_replica_backend>(lanes.by_process[0], 0),
    std::make_shared<nccl_rank>(local_placement{job, 0}, nccl->make_device(),
                                std::make_shared<shared_ids>(), nccl_options{}),
    0};
  for (const std::uint64_t generation : {1, 2}) {
    replica.begin_generation(generation);
    replica.begin_step(0);
    replica.contribute(0, tensor::full({8}, 1), {},
                       collective::output_placement::separate);
    EXPECT_TRUE(replica.wakes());
    replica.contribute(1, tensor::full({8}, 1).to(gpu), {},
                       collective::output_placement::separate);
    EXPECT_FALSE(replica.wakes());
    replica.end_step();
  }
}
