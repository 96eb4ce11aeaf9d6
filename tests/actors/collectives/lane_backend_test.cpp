#include "troupe/tests/actors/collectives/lane_backends.hpp"

#include <gtest/gtest.h>

#include <thread>

using namespace troupe;
using namespace troupe::testing;

namespace {

using kind = lane_backend::wait_condition::kind;
using wait_status = lane_backend::wait_status;

const std::vector<std::string> kinds{"shm", "stream", "zero-copy"};

/// Waits until the condition holds or a peer has failed.
/// @returns true if the condition holds.
bool wait_for(lane_backend& backend, std::uint32_t replica,
              const lane_backend::wait_condition& condition) {
  for (;;) {
    const auto status = backend.wait(replica, condition, true);
    if (status != wait_status::pending)
      return status == wait_status::ready;
  }
}

tensor tensor_of(std::uint32_t replica, std::uint64_t step,
                 std::size_t bucket) {
  constexpr std::array<std::int64_t, 4> sizes{37, 20'000, 1, 60'000};
  auto x = contribution_of(replica, step, large);
  tensor out{shape{sizes[bucket]}};
  for (std::size_t i = 0; i < out.size(); ++i)
    out.mutable_data<float>()[i] = x.data<float>()[i % x.size()];
  return out;
}

tensor tree_of(std::uint32_t a, std::uint32_t b, std::uint64_t step,
               std::size_t bucket) {
  if (b - a == 1)
    return tensor_of(a, step, bucket);
  std::uint32_t k = 1;
  while (2 * k < b - a)
    k *= 2;
  auto x = tree_of(a, a + k, step, bucket);
  const auto y = tree_of(a + k, b, step, bucket);
  for (std::size_t i = 0; i < x.size(); ++i)
    x.mutable_data<float>()[i] += y.data<float>()[i];
  return x;
}

/// Calls `fn` on one thread per replica, with the replica and the backend of
/// its process.
template <class F>
void on_threads(lane_backends& backends, F fn) {
  std::vector<std::thread> threads;
  for (const auto& backend : backends.by_process) {
    for (const auto r : backend->replica_placement().replicas())
      threads.emplace_back([=] { fn(r, *backend); });
  }
  for (auto& one : threads)
    one.join();
}

} // namespace

TEST(LaneBackend, SumsHaveTheBitsOfTheCanonicalTree) {
  for (const auto& lanes : kinds)
    for (const auto& first :
         {firsts{0, 2}, firsts{0, 1, 2}, firsts{0, 3, 4}, firsts{0, 1, 3, 4}}) {
      SCOPED_TRACE(lanes + ", " + std::to_string(first.size() - 1)
                   + " processes");
      lane_backends backends{first, lanes};
      std::atomic<int> correct = 0;
      on_threads(backends, [&](std::uint32_t r, lane_backend& backend) {
        backend.begin_generation(r, 1);
        for (std::uint64_t step = 0; step < 3; ++step) {
          backend.begin_step(r, step);
          tensors contributions;
          for (std::uint32_t b = 0; b < 4; ++b) {
            contributions.push_back(tensor_of(r, step, b));
            backend.contribute(r, b, contributions.back());
          }
          for (std::uint32_t b = 0; b < 4; ++b)
            if (wait_for(backend, r, {kind::sum, b})
                && same_bits(backend.sum_of(r, b),
                             tree_of(0, first.back(), step, b)))
              ++correct;
          wait_for(backend, r, {kind::drained});
          backend.end_step(r);
        }
      });
      EXPECT_EQ(correct, 12 * int(first.back()));
    }
}

void expect_correct_sums(const lane_backend_options& options) {
  lane_backends backends{{0, 1, 2}, "shm", options};
  std::atomic<int> correct = 0;
  on_threads(backends, [&](std::uint32_t r, lane_backend& backend) {
    backend.begin_generation(r, 1);
    for (std::uint64_t step = 0; step < 200; ++step) {
      backend.begin_step(r, step);
      backend.contribute(r, 0, tensor::full({8}, r + double(step)));
      correct +=
        wait_for(backend, r, {kind::sum, 0})
        && backend.sum_of(r, 0).data<float>()[7] == 2 * float(step) + 1;
      wait_for(backend, r, {kind::drained});
      backend.end_step(r);
    }
  });
  EXPECT_EQ(correct, 400);
}

TEST(LaneBackend, SumsAreCorrectWithPolling) {
  expect_correct_sums({.spin_timeout = std::chrono::microseconds{200}});
}

TEST(LaneBackend, SumsAreCorrectIfThreadsShareCores) {
  expect_correct_sums(
    {.spin_timeout = std::chrono::microseconds{200}, .shares_cores = true});
}

TEST(LaneBackend, EveryWaitingReplicaGetsTheLostProcess) {
  for (const auto& lanes : kinds) {
    lane_backends backends{{0, 2, 3, 5}, lanes};
    backends.by_process.pop_back();
    std::atomic<int> named = 0;
    on_threads(backends, [&](std::uint32_t r, lane_backend& backend) {
      backend.begin_generation(r, 1);
      backend.begin_step(r, 0);
      backend.contribute(r, 0, tensor::full({50'000}, 1));
      if (wait_for(backend, r, {kind::sum, 0}))
        return;
      const auto failure = backend.failure();
      named += failure && failure->process == 2
               && failure->code == ec::peer_lost && !failure->reason.empty();
      backend.end_step(r);
    });
    EXPECT_EQ(named, 3) << lanes;
  }
}

TEST(LaneBackend, PacketsThatArriveBeforeTheLossAreUsed) {
  for (const auto& lanes : kinds) {
    lane_backends backends{{0, 1, 2}, lanes};
    for (std::uint32_t r = 0; r < 2; ++r) {
      backends.by_process[r]->begin_generation(r, 1);
      backends.by_process[r]->begin_step(r, 0);
      backends.by_process[r]->contribute(r, 0, tensor::full({5}, r + 1));
    }
    backends.by_process[1].reset();
    ASSERT_TRUE(wait_for(*backends.by_process[0], 0, {kind::sum, 0})) << lanes;
    EXPECT_EQ(backends.by_process[0]->sum_of(0, 0).data<float>()[4], 3);
  }
}

/// Overwrites those free memory blocks of the tensor pool that have the size of
/// a tensor of shape `dims`.
void overwrite_free_memory(const shape& dims) {
  tensors blocks;
  for (int i = 0; i < 32; ++i)
    blocks.push_back(tensor::full(dims, -1));
}

TEST(LaneBackend, ASumThatAPeerReadsOutlivesTheStepOfAFailedReplica) {
  // A tensor of `dims` has 48 KiB: three chunks of 16 KiB. Process 0 adds
  // chunks 0 and 2, and process 1 adds chunk 1.
  const shape dims{12'288};
  lane_backends backends{{0, 1, 2}, "zero-copy"};
  for (std::uint32_t r = 0; r < 2; ++r) {
    backends.by_process[r]->begin_generation(r, 1);
    backends.by_process[r]->begin_step(r, 0);
    backends.by_process[r]->contribute(r, 0, tensor::full(dims, r + 1));
  }
  ASSERT_EQ(backends.by_process[0]->wait(0, {kind::sum, 0}, false),
            wait_status::ready);
  EXPECT_EQ(backends.by_process[0]->wait(0, {kind::drained}, false),
            wait_status::pending);
  backends.by_process[0]->end_step(0);
  overwrite_free_memory(dims);
  ASSERT_TRUE(wait_for(*backends.by_process[1], 1, {kind::sum, 0}));
  EXPECT_TRUE(
    same_bits(backends.by_process[1]->sum_of(1, 0), tensor::full(dims, 3)));
}

TEST(LaneBackend, ListsReplicasThatStillReadZeroCopyBuffers) {
  using ids = std::vector<std::uint32_t>;
  lane_backends backends{{0, 1, 2}, "zero-copy"};
  for (std::uint32_t r = 0; r < 2; ++r) {
    backends.by_process[r]->begin_generation(r, 1);
    backends.by_process[r]->begin_step(r, 0);
    backends.by_process[r]->contribute(r, 0, tensor::full({12'288}, r + 1));
  }
  auto& sender = *backends.by_process[0];
  ASSERT_TRUE(wait_for(sender, 0, {kind::sum, 0}));
  EXPECT_FALSE(sender.missing_inputs(0));
  EXPECT_EQ(sender.pending_receivers(), ids{1});
  ASSERT_TRUE(wait_for(*backends.by_process[1], 1, {kind::sum, 0}));
  EXPECT_EQ(sender.pending_receivers(), ids{});
  EXPECT_EQ(sender.wait(0, {kind::drained}, false), wait_status::ready);
}

/// Duplicates the results that process 0 sends in step 0, and delays the second
/// copies.
struct second_copies final : fault_injector {
  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind message, std::uint64_t,
                         std::uint64_t step) override {
    if (sender != replica_id(0) || message != message_kind::result || step != 0)
      return {};
    ++times;
    return {.duplicated = true, .delay = delay};
  }
  static constexpr std::chrono::milliseconds delay{5};
  int times = 0;
};

/// A process whose replicas have ended their last step does not read its lanes.
TEST(LaneBackend, DoesNotWaitUntilAPeerReadsTheSecondCopyOfAPacket) {
  std::chrono::steady_clock::time_point now{};
  const auto faults = std::make_shared<second_copies>();
  lane_backends backends{
    {0, 1, 2}, "zero-copy", {.faults = faults, .now = [&now] { return now; }}};
  auto& sender = *backends.by_process[0];
  auto& receiver = *backends.by_process[1];
  for (std::uint32_t r = 0; r < 2; ++r)
    backends.by_process[r]->begin_generation(r, 1);
  for (std::uint64_t step = 0; step < 2; ++step) {
    for (std::uint32_t r = 0; r < 2; ++r) {
      backends.by_process[r]->begin_step(r, step);
      // Three chunks of 16 KiB, of which process 0 adds two.
      backends.by_process[r]->contribute(r, 0, tensor::full({12'288}, r + 1));
    }
    auto status = wait_status::pending;
    for (int i = 0; i < 10 && status == wait_status::pending; ++i) {
      sender.wait(0, {kind::sum, 0}, false);
      status = receiver.wait(1, {kind::drained}, false);
      now += faults->delay;
    }
    ASSERT_EQ(status, wait_status::ready);
    EXPECT_TRUE(same_bits(receiver.sum_of(1, 0), tensor::full({12'288}, 3)));
    receiver.end_step(1);
    ASSERT_EQ(sender.wait(0, {kind::drained}, false), wait_status::ready);
    sender.end_step(0);
  }
  EXPECT_EQ(faults->times, 2);
}

TEST(LaneBackend, AContributionThatAPeerReadsOutlivesItsFailedReplica) {
  // A tensor of `dims` has 24 KiB. A bucket of at most 32 KiB is sent as one
  // chunk, and process 0 adds this chunk.
  const shape dims{6'144}, more{12'288};
  lane_backends backends{{0, 1, 2, 3}, "zero-copy"};
  for (std::uint32_t r = 0; r < 3; ++r) {
    backends.by_process[r]->begin_generation(r, 1);
    backends.by_process[r]->begin_step(r, 0);
  }
  for (const std::uint32_t r : {1, 2})
    backends.by_process[r]->contribute(
      r, 0, tensor::full(more, r + 1).slice(0, 6'144));
  backends.by_process[2]->end_step(2);
  backends.by_process[2]->begin_generation(2, 2); // leaves generation 1
  overwrite_free_memory(more);
  backends.by_process[0]->contribute(0, 0, tensor::full(dims, 1));
  ASSERT_TRUE(wait_for(*backends.by_process[1], 1, {kind::drained}));
  EXPECT_TRUE(
    same_bits(backends.by_process[1]->sum_of(1, 0), tensor::full(dims, 6)));
}

/// The other process sums in the memory of its contribution. So this memory has
/// its contributions to the chunks of the first process, and the results of its
/// own chunks. The first process has all packets when the other one ends.
TEST(LaneBackend, PacketsOfAProcessThatHasEndedItsLanesGiveNoSum) {
  const shape dims{12'288}; // three chunks of 16 KiB
  lane_backends backends{{0, 1, 2}, "zero-copy"};
  auto& survivor = *backends.by_process[0];
  auto& ended = backends.by_process[1];
  for (std::uint32_t r = 0; r < 2; ++r) {
    backends.by_process[r]->begin_generation(r, 1);
    backends.by_process[r]->begin_step(r, 0);
  }
  survivor.contribute(0, 0, tensor::full(dims, 1));
  auto sent = tensor::full(dims, 2);
  ended->contribute(1, 0, sent, {}, collective::output_placement::in_place);
  ASSERT_EQ(ended->pending_receivers(), std::vector<std::uint32_t>{0})
    << "its packets were copied";
  ended.reset();
  std::ranges::fill(sent.mutable_data<float>(), 1e9f);
  EXPECT_FALSE(wait_for(survivor, 0, {kind::sum, 0}));
  EXPECT_FALSE(survivor.sum_of(0, 0));
  const auto failure = survivor.failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->process, 1u);
  EXPECT_EQ(failure->code, ec::peer_lost);
}

TEST(LaneBackend, ALossDuringAWaitEndsTheWait) {
  lane_backends backends{{0, 1, 2}, "stream"};
  auto& backend = *backends.by_process[0];
  backend.begin_generation(0, 1);
  backend.begin_step(0, 0);
  backend.contribute(0, 0, tensor::full({5}, 1));
  std::thread other{[&] { backends.cut(1); }};
  EXPECT_FALSE(wait_for(backend, 0, {kind::sum, 0}));
  other.join();
  EXPECT_EQ(backend.failure()->process, 1u);
  EXPECT_EQ(backend.failure()->code, ec::peer_lost);
}

TEST(LaneBackend, RejectsLanesThatDoNotFitThePlacement) {
  const local_placement two{placement::contiguous({1, 1}), 0};
  EXPECT_THROW((lane_backend{two, {}}), std::logic_error);
  EXPECT_THROW((lane_backend{two, std::vector<peer_lanes>(2)}),
               std::logic_error);
  std::vector<peer_lanes> lanes(2); // a lane for contributions only
  lanes[1] = net::testing::list_of(net::testing::make_lanes("stream").left);
  EXPECT_THROW((lane_backend{two, std::move(lanes)}), std::logic_error);
}
