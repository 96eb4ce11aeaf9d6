#include "troupe/tests/actors/collectives/lane_backends.hpp"

#include <gtest/gtest.h>

#include <thread>

using namespace troupe;
using namespace troupe::testing;

namespace {

using kind = data_plane::wish::kind;
using news = data_plane::news;

const std::vector<std::string> kinds{"shm", "stream", "lending"};

/// Waits until the condition holds or a peer has failed.
/// @returns whether the condition holds.
bool await(data_plane& on, std::uint32_t replica, const data_plane::wish& x) {
  for (;;) {
    const auto it = on.wait(replica, x, true);
    if (it != news::waiting)
      return it == news::granted;
  }
}

tensor part_of(std::uint32_t replica, std::uint64_t step, std::size_t bucket) {
  constexpr std::array<std::int64_t, 4> sizes{37, 20'000, 1, 60'000};
  auto x = brought(replica, step, large);
  tensor out{shape{sizes[bucket]}};
  for (std::size_t i = 0; i < out.size(); ++i)
    out.mutable_data<float>()[i] = x.data<float>()[i % x.size()];
  return out;
}

tensor tree_of(std::uint32_t a, std::uint32_t b, std::uint64_t step,
               std::size_t bucket) {
  if (b - a == 1)
    return part_of(a, step, bucket);
  std::uint32_t k = 1;
  while (2 * k < b - a)
    k *= 2;
  auto x = tree_of(a, a + k, step, bucket);
  const auto y = tree_of(a + k, b, step, bucket);
  for (std::size_t i = 0; i < x.size(); ++i)
    x.mutable_data<float>()[i] += y.data<float>()[i];
  return x;
}

/// Calls `fn(replica, backend of its process)` on a thread for each replica.
template <class F>
void on_threads(planes& on, F fn) {
  std::vector<std::thread> all;
  for (const auto& plane : on.of) {
    const auto& at = plane->at();
    for (auto r = at.first[at.me]; r < at.first[at.me + 1]; ++r)
      all.emplace_back([=] { fn(r, *plane); });
  }
  for (auto& one : all)
    one.join();
}

} // namespace

TEST(LaneBackend, SumsHaveTheBitsOfTheCanonicalTree) {
  for (const auto& lanes : kinds)
    for (const auto& first :
         {firsts{0, 2}, firsts{0, 1, 2}, firsts{0, 3, 4}, firsts{0, 1, 3, 4}}) {
      SCOPED_TRACE(lanes + ", " + std::to_string(first.size() - 1)
                   + " processes");
      planes on{first, lanes};
      std::atomic<int> right = 0;
      on_threads(on, [&](std::uint32_t r, data_plane& plane) {
        plane.seat(r, 1);
        for (std::uint64_t step = 0; step < 3; ++step) {
          plane.enter(r, step);
          tensors parts;
          for (std::uint32_t b = 0; b < 4; ++b) {
            parts.push_back(part_of(r, step, b));
            plane.contribute(r, b, parts.back());
          }
          for (std::uint32_t b = 0; b < 4; ++b)
            if (await(plane, r, {kind::sum, b})
                && same_bits(plane.sum_of(r, b),
                             tree_of(0, first.back(), step, b)))
              ++right;
          await(plane, r, {kind::settled});
          plane.leave(r);
        }
      });
      EXPECT_EQ(right, 12 * int(first.back()));
    }
}

TEST(LaneBackend, SumsAreCorrectWithPolling) {
  planes on{{0, 1, 2}, "shm", {.polling = std::chrono::microseconds{200}}};
  std::atomic<int> right = 0;
  on_threads(on, [&](std::uint32_t r, data_plane& plane) {
    plane.seat(r, 1);
    for (std::uint64_t step = 0; step < 200; ++step) {
      plane.enter(r, step);
      plane.contribute(r, 0, tensor::full({8}, r + double(step)));
      right += await(plane, r, {kind::sum, 0})
               && plane.sum_of(r, 0).data<float>()[7] == 2 * float(step) + 1;
      await(plane, r, {kind::settled});
      plane.leave(r);
    }
  });
  EXPECT_EQ(right, 400);
}

TEST(LaneBackend, EveryWaitingReplicaGetsTheLostProcess) {
  for (const auto& lanes : kinds) {
    planes on{{0, 2, 3, 5}, lanes, {.names = {"chief 0", "worker 0", "w1"}}};
    on.of.pop_back();
    std::atomic<int> named = 0;
    on_threads(on, [&](std::uint32_t r, data_plane& plane) {
      plane.seat(r, 1);
      plane.enter(r, 0);
      plane.contribute(r, 0, tensor::full({50'000}, 1));
      if (await(plane, r, {kind::sum, 0}))
        return;
      const auto why = plane.troubled();
      named += why && why->process == 2 && why->how == net::ending::dead
               && mentions(why->why, "w1 (replicas 3, 4) was lost: ");
      plane.leave(r);
    });
    EXPECT_EQ(named, 3) << lanes;
  }
}

TEST(LaneBackend, PacketsThatArriveBeforeTheLossAreUsed) {
  for (const auto& lanes : kinds) {
    planes on{{0, 1, 2}, lanes};
    for (std::uint32_t r = 0; r < 2; ++r) {
      on.of[r]->seat(r, 1);
      on.of[r]->enter(r, 0);
      on.of[r]->contribute(r, 0, tensor::full({5}, r + 1));
    }
    on.of[1].reset();
    ASSERT_TRUE(await(*on.of[0], 0, {kind::sum, 0})) << lanes;
    EXPECT_EQ(on.of[0]->sum_of(0, 0).data<float>()[4], 3);
  }
}

/// Overwrites free memory blocks of the size of a bucket.
void reuse(const shape& dims) {
  tensors all;
  for (int i = 0; i < 32; ++i)
    all.push_back(tensor::full(dims, -1));
}

TEST(LaneBackend, ASumThatAPeerReadsOutlivesTheStepOfAFailedReplica) {
  const shape dims{12'288}; // process 0 adds chunks 0 and 2, process 1 adds 1
  planes on{{0, 1, 2}, "lending"};
  for (std::uint32_t r = 0; r < 2; ++r) {
    on.of[r]->seat(r, 1);
    on.of[r]->enter(r, 0);
    on.of[r]->contribute(r, 0, tensor::full(dims, r + 1));
  }
  ASSERT_EQ(on.of[0]->wait(0, {kind::sum, 0}, false), news::granted);
  EXPECT_EQ(on.of[0]->wait(0, {kind::settled}, false), news::waiting);
  on.of[0]->leave(0);
  reuse(dims);
  ASSERT_TRUE(await(*on.of[1], 1, {kind::sum, 0}));
  EXPECT_TRUE(same_bits(on.of[1]->sum_of(1, 0), tensor::full(dims, 3)));
}

TEST(LaneBackend, ListsReplicasThatStillReadZeroCopyBuffers) {
  using ids = std::vector<std::uint32_t>;
  planes on{{0, 1, 2}, "lending"};
  for (std::uint32_t r = 0; r < 2; ++r) {
    on.of[r]->seat(r, 1);
    on.of[r]->enter(r, 0);
    on.of[r]->contribute(r, 0, tensor::full({12'288}, r + 1));
  }
  auto& lender = *on.of[0];
  ASSERT_TRUE(await(lender, 0, {kind::sum, 0}));
  EXPECT_FALSE(lender.lacking(0));
  EXPECT_EQ(lender.unread(), ids{1});
  ASSERT_TRUE(await(*on.of[1], 1, {kind::sum, 0}));
  EXPECT_EQ(lender.unread(), ids{});
  EXPECT_EQ(lender.wait(0, {kind::settled}, false), news::granted);
}

TEST(LaneBackend, AContributionThatAPeerReadsOutlivesItsFailedReplica) {
  const shape dims{6'144}, more{12'288}; // one chunk, which process 0 adds
  planes on{{0, 1, 2, 3}, "lending"};
  for (std::uint32_t r = 0; r < 3; ++r) {
    on.of[r]->seat(r, 1);
    on.of[r]->enter(r, 0);
  }
  for (const std::uint32_t r : {1, 2})
    on.of[r]->contribute(r, 0, tensor::full(more, r + 1).slice(0, 6'144));
  on.of[2]->leave(2);
  on.of[2]->seat(2, 2); // begins a new generation
  reuse(more);
  on.of[0]->contribute(0, 0, tensor::full(dims, 1));
  ASSERT_TRUE(await(*on.of[1], 1, {kind::settled}));
  EXPECT_TRUE(same_bits(on.of[1]->sum_of(1, 0), tensor::full(dims, 6)));
}

TEST(LaneBackend, ALossDuringAWaitEndsTheWait) {
  planes on{{0, 1, 2}, "stream"};
  auto& plane = *on.of[0];
  plane.seat(0, 1);
  plane.enter(0, 0);
  plane.contribute(0, 0, tensor::full({5}, 1));
  std::thread other{[&] { on.cut(1); }};
  EXPECT_FALSE(await(plane, 0, {kind::sum, 0}));
  other.join();
  EXPECT_TRUE(
    plane.troubled()->why.starts_with("process 1 (replica 1) was lost: "))
    << plane.troubled()->why;
}

TEST(LaneBackend, RejectsLanesThatDoNotFitThePlacement) {
  const exchange::layout two{{0, 1, 2}, 0};
  EXPECT_THROW((data_plane{two, {}}), std::logic_error);
  EXPECT_THROW((data_plane{two, std::vector<peer_lanes>(2)}), std::logic_error);
}
