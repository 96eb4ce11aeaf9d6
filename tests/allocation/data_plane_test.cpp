#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/support/malloc_counter.hpp"

#include <gtest/gtest.h>

using namespace troupe;

namespace {

using kind = lane_backend::wait_condition::kind;

/// Stands for two processes with one replica each. The replicas run in turn on
/// one thread.
struct pair {
  explicit pair(const std::string& lanes) {
    const net::testing::shm_contexts grounds;
    const auto make = [&](std::size_t queue) {
      return lanes == "shm" ? net::testing::shm_lanes_over(grounds, queue)
                            : net::testing::make_lanes(lanes);
    };
    auto parts = make(0), sums = make(1);
    std::vector<peer_lanes> left(2), right(2);
    left[1] =
      net::testing::list_of(std::move(parts.left), std::move(sums.left));
    right[0] =
      net::testing::list_of(std::move(parts.right), std::move(sums.right));
    const auto placed = placement::contiguous({1, 1});
    backends.push_back(std::make_unique<lane_backend>(
      local_placement{placed, 0}, std::move(left)));
    backends.push_back(std::make_unique<lane_backend>(
      local_placement{placed, 1}, std::move(right)));
    for (std::uint32_t r = 0; r < 2; ++r)
      backends[r]->begin_generation(r, 1);
  }

  void run(std::uint64_t step, const tensors& contributions) {
    for (std::uint32_t r = 0; r < 2; ++r) {
      backends[r]->begin_step(r, step);
      for (std::uint32_t b = 0; b < contributions.size(); ++b)
        backends[r]->contribute(r, b, contributions[b]);
    }
    for (int settled = 0; settled < 2;) {
      settled = 0;
      for (std::uint32_t r = 0; r < 2; ++r)
        settled += backends[r]->wait(r, {kind::drained}, false)
                   == lane_backend::wait_status::ready;
    }
    for (std::uint32_t r = 0; r < 2; ++r) {
      for (std::uint32_t b = 0; b < contributions.size(); ++b)
        right += backends[r]->sum_of(r, b).data<float>().back() == 2;
      backends[r]->end_step(r);
    }
  }

  std::vector<std::unique_ptr<lane_backend>> backends;
  std::size_t right = 0;
};

} // namespace

TEST(DataPlane, RequestsNoMemoryAfterTheFirstStep) {
  for (const auto& lanes : {"shm", "stream"}) {
    pair processes{lanes};
    tensors contributions;
    for (const std::int64_t size : {1, 1000, 20'000, 300'000})
      contributions.push_back(tensor::full({size}, 1));
    std::uint64_t step = 0;
    for (; step < 3; ++step)
      processes.run(step, contributions);
    const troupe::testing::malloc_counter counter;
    for (; step < 10; ++step)
      processes.run(step, contributions);
    EXPECT_EQ(counter.calls(), 0u) << lanes;
    EXPECT_EQ(processes.right, 10 * 2 * contributions.size());
  }
}
