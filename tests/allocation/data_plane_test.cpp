#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/support/malloc_counter.hpp"

#include <gtest/gtest.h>

using namespace troupe;

namespace {

using kind = data_plane::wish::kind;

/// Two processes with one replica each, which take turns.
struct pair {
  explicit pair(const std::string& lanes) {
    const net::testing::shm_grounds grounds;
    const auto make = [&](std::size_t queue) {
      return lanes == "shm" ? net::testing::lanes_over(grounds, queue)
                            : net::testing::make_lanes(lanes);
    };
    auto parts = make(0), sums = make(1);
    std::vector<peer_lanes> left(2), right(2);
    left[1] = {std::move(parts.left), std::move(sums.left)};
    right[0] = {std::move(parts.right), std::move(sums.right)};
    const std::vector<std::uint32_t> first{0, 1, 2};
    of.push_back(std::make_unique<data_plane>(exchange::layout{first, 0},
                                              std::move(left)));
    of.push_back(std::make_unique<data_plane>(exchange::layout{first, 1},
                                              std::move(right)));
    for (std::uint32_t r = 0; r < 2; ++r)
      of[r]->seat(r, 1);
  }

  void run(std::uint64_t step, const tensors& parts) {
    for (std::uint32_t r = 0; r < 2; ++r) {
      of[r]->enter(r, step);
      for (std::uint32_t b = 0; b < parts.size(); ++b)
        of[r]->contribute(r, b, parts[b]);
    }
    for (int settled = 0; settled < 2;) {
      settled = 0;
      for (std::uint32_t r = 0; r < 2; ++r)
        settled +=
          of[r]->wait(r, {kind::settled}, false) == data_plane::news::granted;
    }
    for (std::uint32_t r = 0; r < 2; ++r) {
      for (std::uint32_t b = 0; b < parts.size(); ++b)
        right += of[r]->sum_of(r, b).data<float>().back() == 2;
      of[r]->leave(r);
    }
  }

  std::vector<std::unique_ptr<data_plane>> of;
  std::size_t right = 0;
};

} // namespace

TEST(DataPlane, RequestsNoMemoryAfterTheFirstStep) {
  for (const auto& lanes : {"shm", "stream"}) {
    pair on{lanes};
    tensors parts;
    for (const std::int64_t size : {1, 1000, 20'000, 300'000})
      parts.push_back(tensor::full({size}, 1));
    std::uint64_t step = 0;
    for (; step < 3; ++step)
      on.run(step, parts);
    const troupe::testing::malloc_counter counter;
    for (; step < 10; ++step)
      on.run(step, parts);
    EXPECT_EQ(counter.calls(), 0u) << lanes;
    EXPECT_EQ(on.right, 10 * 2 * parts.size());
  }
}
