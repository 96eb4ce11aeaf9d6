#include "troupe/tests/strategies/collective/rings.hpp"

#include <gtest/gtest.h>

// Packets whose payload may have changed while it was read, because their
// sender has ended its queue.

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

/// Process 0 sends two contributions to a chunk of a sum by tree.
const placement job_placement{{{0, 3}, {1}, {2}}};

/// A collective of three processes.
struct collective_case {
  const char* name;
  packet_kind kind;
  std::size_t elements;
  collective_options options;
};

const std::vector<collective_case> cases{
  {"sum by tree", packet_kind::contribution, 50'000, {}},
  {"sum of all to all", packet_kind::contribution, 100, {}},
  {"sum by ring", packet_kind::contribution, 50'000, ringed},
  {"gather", packet_kind::gather_contribution, 100'000, {}},
};

struct one_collective : process_group {
  one_collective(const collective_case& which, bool views)
    : process_group{job_placement, 2, views},
      inputs{inputs_of<float>(4, which.elements, 1)},
      is_gather{which.kind == packet_kind::gather_contribution} {
    begin_generation(1);
    begin_step(0);
    for (std::uint32_t r = 0; r < 4; ++r)
      if (is_gather)
        machine_of(r).gather(r, 0, inputs[r], which.options);
      else
        machine_of(r).contribute(r, 0, inputs[r], which.options);
  }

  /// Returns the results of a replica. Empty: there are none.
  tensors results_of(std::uint32_t replica) {
    if (is_gather)
      return machine_of(replica).gathered(replica, 0);
    const auto sum = machine_of(replica).sum_of(replica, 0);
    return sum ? tensors(1, sum) : tensors{};
  }

  std::size_t complete_replicas() {
    std::size_t out = 0;
    for (std::uint32_t r = 0; r < 4; ++r)
      out += results_of(r).size() > 0;
    return out;
  }

  tensors inputs;
  bool is_gather;
};

/// Returns the results of all replicas.
std::vector<tensors> undisturbed(const collective_case& which, bool views,
                                 std::size_t& checked) {
  one_collective job{which, views};
  job.progress_all();
  checked = job.queues.checked;
  std::vector<tensors> out;
  for (std::uint32_t r = 0; r < 4; ++r)
    out.push_back(job.results_of(r));
  return out;
}

} // namespace

TEST(ChangedPackets, CompleteNoCollective) {
  for (const auto& which : cases)
    for (const bool views : {true, false}) {
      std::size_t packets = 0;
      undisturbed(which, views, packets);
      ASSERT_GT(packets, 5u) << which.name;
      for (std::size_t i = 0; i < packets; ++i) {
        one_collective job{which, views};
        job.queues.changed = i;
        job.progress_all();
        ASSERT_TRUE(job.queues.receiver_of_changed);
        for (const auto r :
             job.placed.replicas_of(*job.queues.receiver_of_changed))
          EXPECT_TRUE(job.results_of(r).empty())
            << which.name << ", packet " << i;
        for (std::uint32_t p = 0; p < 3; ++p)
          EXPECT_FALSE(job.machines[p]->error()) << which.name;
      }
    }
}

/// Otherwise a packet could change after it was checked.
TEST(ChangedPackets, AreReadBeforeTheyAreChecked) {
  for (const auto& which : cases)
    for (const bool views : {true, false}) {
      std::size_t packets = 0;
      const auto expected = undisturbed(which, views, packets);
      one_collective job{which, views};
      job.queues.changes_when_checked = true;
      job.progress_all();
      EXPECT_EQ(job.queues.checked, packets);
      for (std::uint32_t r = 0; r < 4; ++r) {
        const auto found = job.results_of(r);
        ASSERT_EQ(found.size(), expected[r].size()) << which.name;
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(same_bits(found[i], expected[r][i])) << which.name;
      }
    }
}

TEST(ChangedPackets, AreCheckedOnceEach) {
  for (const auto& which : cases) {
    one_collective job{which, true};
    job.progress_all();
    ASSERT_EQ(job.complete_replicas(), 4u) << which.name;
    std::size_t left = 0;
    for (const auto& queue : job.queues.queues)
      left += queue.size();
    EXPECT_EQ(left, 0u);
    EXPECT_EQ(job.queues.checked, job.queues.packets) << which.name;
  }
}
