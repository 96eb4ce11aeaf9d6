#include "card.hpp"
#include "troupe/actors/collectives/nccl/communicator/communicator_channels.hpp"
#include "troupe/actors/collectives/nccl/nccl_device.hpp"
#include "troupe/actors/collectives/nccl/nccl_ranks.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/tests/training/strategies/losses.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Training whose sums NCCL adds. A card has one rank, so the communicator of
// these tests has one, and both replicas are on it.

namespace {

using namespace troupe;
using namespace troupe::test;
using backends = communication_options::backends;

/// A process of a job that hosts all replicas, each with a copy of the
/// parameters on the card.
strategy over_nccl(runtime& actors, std::uint32_t replicas) {
  const auto job = std::make_shared<world>();
  job->names = {"worker 0"};
  job->placement = {placement::contiguous({replicas}), 0};
  job->connections.resize(1);
  job->backend =
    std::make_shared<lane_backend>(job->placement, std::vector<peer_lanes>(1));
  const std::vector<communicator_channels::peer> ranks{{"worker 0", nullptr}};
  job->ranks = std::make_shared<nccl_ranks>(
    job->placement, std::vector{make_nccl_device(0)},
    std::make_shared<communicator_channels>(ranks, 1, communicator_channel,
                                            [] {}),
    std::make_shared<threaded_blocking_calls>(), nccl_options{});
  group_environment environment{actors.system()};
  environment.job_world = job;
  auto state = make_strategy_state(
    make_replica_group(environment, {.replicas = replicas}),
    "multi_worker_mirrored", std::vector<device>(replicas, card), 1);
  state->is_one_process = false; // so each replica has a copy
  state->copies = replicas;
  return strategy{state};
}

std::string weights_of_one_device(std::uint32_t replicas) {
  return weights_after_fit(
    one_device_strategy{"gpu:0", {.replicas = replicas}});
}

TEST_F(OnACard, TrainingThroughNcclHasTheBitsOfOneDevice) {
  for (const std::uint32_t replicas : {1, 2, 3}) {
    runtime actors;
    EXPECT_EQ(weights_after_fit(over_nccl(actors, replicas)),
              weights_of_one_device(replicas))
      << replicas << " replicas";
  }
}

/// Each fit and each evaluation begins another generation, and with it another
/// communicator.
TEST_F(OnACard, LaterGenerationsOfATrainingThroughNcclHaveEqualBits) {
  const auto run = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    double losses = 0;
    for (int i = 0; i < 3; ++i) {
      it.fit(uneven_batches());
      losses += it.evaluate(digits_200().batch(48)).loss;
    }
    return std::pair{it.weights_sha256(), losses};
  };
  runtime actors;
  EXPECT_EQ(run(over_nccl(actors, 2)),
            run(one_device_strategy{"gpu:0", {.replicas = 2}}));
}

/// A worker for each of two replicas on one card: the host adds. When one has
/// left, the other one hosts both replicas, and NCCL with one rank adds. The
/// bits do not depend on that.
TEST_F(OnACard, TheLastWorkerGoesOnThroughNccl) {
  const auto fit = [](const strategy& on, const std::atomic<bool>& leave) {
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 5};
    how.leave = &leave;
    it.fit(uneven_batches(), how);
    return it.weights_sha256();
  };
  multi_worker_options options;
  options.devices = {"gpu:0"};
  const std::atomic<bool> stays = false, leaves = true;
  std::string weights;
  expect_nothing_thrown(
    run_on_cluster(2, options, [&](const strategy& on, std::uint32_t w) {
      EXPECT_EQ(on.transport().find("nccl"), std::string::npos);
      if (w == 1) {
        fit(on, leaves);
        return;
      }
      weights = fit(on, stays);
      EXPECT_TRUE(on.state()->cluster->uses_nccl());
    }));
  EXPECT_EQ(weights, fit(one_device_strategy{"gpu:0", {.replicas = 2}}, stays));
}

TEST_F(OnACard, TwoWorkersOnOneCardCannotUseNccl) {
  multi_worker_options options;
  options.devices = {"gpu:0"};
  options.communication.collectives = backends::nccl;
  for (const auto& thrown :
       run_on_cluster(2, options, [](const strategy&, std::uint32_t) {})) {
    const auto text = exception_text(thrown);
    EXPECT_NE(text.find("worker 0 and worker 1 have the same card (GPU-"),
              text.npos)
      << text;
  }
}

TEST_F(OnACard, ADeviceForNcclTellsItsIdentityAndVersion) {
  const auto device = make_nccl_device(0);
  const auto identity = device->identity();
  EXPECT_TRUE(identity.starts_with("GPU-")) << identity;
  EXPECT_EQ(identity.size(), 36u);
  EXPECT_EQ(identity, make_nccl_device(0)->identity());
  const auto version = device->library_version();
  EXPECT_EQ(std::ranges::count(version, '.'), 2) << version;
}

} // namespace
