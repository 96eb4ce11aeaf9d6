#include "troupe/tests/actors/collectives/lane_backends.hpp"
#include "troupe/tests/actors/collectives/packet_fault.hpp"
#include "troupe/tests/support/becomes_true.hpp"

#include <gtest/gtest.h>

#include <atomic>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;
using troupe::test::becomes_true;

namespace {

const std::vector<firsts> layouts{{0, 1, 2}, {0, 2, 3}, {0, 1, 2, 5}};

} // namespace

TEST(LaneGroup, ResultsEqualThoseOfTheSequentialGroup) {
  for (const auto& lanes : {"shm", "stream"})
    for (const auto& first : layouts) {
      SCOPED_TRACE(std::string{lanes} + ", " + std::to_string(first.size() - 1)
                   + " processes");
      outcome wanted, out;
      const auto end = make_sequential_group({.replicas = first.back()})
                         ->run(wanted.request(4, 8));
      lane_backend_group fixture{first, lanes};
      EXPECT_EQ(fixture.run(out.request(4, 8)), end);
      EXPECT_EQ(out.commits, wanted.commits);
      ASSERT_EQ(out.sums.size(), wanted.sums.size());
      for (const auto& [key, sum] : wanted.sums)
        EXPECT_TRUE(same_bits(out.sums.at(key), sum));
    }
}

TEST(LaneGroup, GathersAlthoughReplicasRunAheadInOtherSteps) {
  lane_backend_group fixture{{0, 2, 3}, "shm"};
  std::atomic<int> right = 0;
  fixture.run({0,
               30,
               [&](step_context& context) {
                 if (context.step % 3 != 0)
                   return;
                 const tensor contribution = tensor::full(
                   {1 + std::int64_t(context.replica)}, context.step);
                 const auto gathered = context.gather(1, contribution);
                 for (std::uint32_t r = 0; r < 3; ++r)
                   right +=
                     gathered[r].size() == r + 1
                     && gathered[r].data<float>()[r] == float(context.step);
               },
               {}});
  EXPECT_EQ(right, 90);
}

TEST(LaneGroup, RunsInANewGenerationAfterAnException) {
  for (const auto& first : layouts)
    for (std::uint32_t bad = 0; bad < first.back(); ++bad) {
      lane_backend_group fixture{first, "shm"};
      const auto error_text = job_error_of(
        [&] {
          fixture.run({0,
                       5,
                       [&](step_context& context) {
                         context.contribute(0, tensor::full({100'000}, 1));
                         if (context.step == 2 && context.replica == bad)
                           throw std::runtime_error("enough");
                         context.contribute(1, tensor::full({10}, 1));
                         context.sum(0);
                         context.sum(1);
                       },
                       {}});
        },
        ec::invalid);
      EXPECT_TRUE(mentions(error_text, "enough")) << error_text;
      outcome wanted, out;
      make_sequential_group({.replicas = first.back()})
        ->run(wanted.request(0, 3));
      fixture.run(out.request(0, 3));
      for (const auto& [key, sum] : wanted.sums)
        ASSERT_TRUE(same_bits(out.sums.at(key), sum));
    }
}

TEST(LaneGroup, NamesALostProcessTheOperationAndTheStep) {
  lane_backend_group fixture{{0, 1, 3}, "stream"};
  const auto error_text = job_error_of(
    [&] {
      fixture.run({0,
                   10,
                   [&](step_context& context) {
                     if (context.step >= 4 && context.replica != 0)
                       fixture.backends.cut(1);
                     else
                       context.contribute(3, tensor::full({10}, 1));
                     if (context.step < 4 || context.replica == 0)
                       context.sum(3);
                   },
                   {}});
    },
    ec::peer_lost);
  EXPECT_TRUE(mentions(
    error_text,
    "replica 0 of process 0 has lost its lanes to process 1 in step 4: the "
    "peer "
    "has closed the connection; replica 0 waits for the sum of bucket 3, still "
    "missing replicas 1, 2"))
    << error_text;
}

TEST(LaneGroup, NamesBothOperationsIfReplicasDiffer) {
  lane_backend_group fixture{{0, 1, 2}, "stream"};
  const auto error_text = job_error_of(
    [&] {
      fixture.run({0,
                   10,
                   [](step_context& context) {
                     const std::int64_t size =
                       context.step == 3 && context.replica == 1;
                     context.contribute(6, tensor::full({10 + size}, 1));
                     context.sum(6);
                   },
                   {}});
    },
    ec::protocol);
  EXPECT_TRUE(mentions(error_text, "called bucket 6 of float32[1"))
    << error_text;
  EXPECT_TRUE(mentions(error_text,
                       "the replicas do not pass the same shapes and dtypes"));
}

TEST(LaneGroup, EndsAWaitAtTheTimeoutOfItsCollective) {
  std::atomic<bool> released = false;
  lane_backend_group fixture{{0, 1, 2}, "shm"};
  const auto error_text = job_error_of(
    [&] {
      fixture.run({0,
                   2,
                   [&](step_context& context) {
                     context.options.timeout = 50;
                     if (context.replica == 1 && context.step == 1)
                       becomes_true([&] { return released.load(); });
                     context.contribute(2, tensor::full({10}, 1));
                     try {
                       context.sum(2);
                     } catch (const superseded&) {
                       released = true;
                       throw;
                     }
                   },
                   {}});
    },
    ec::stalled);
  EXPECT_EQ(error_text,
            "replica 0 of process 0 failed in step 1: replica 0 waited for the "
            "sum of bucket 2 in step 1 for 50 ms, the timeout of its call; it "
            "misses replica 1");
}

TEST(LaneGroup, AStallNamesTheMissingReplica) {
  std::atomic<bool> released = false;
  lane_backend_group fixture{{0, 1, 2}, "shm", 300ms};
  const auto error_text = job_error_of(
    [&] {
      fixture.run({0,
                   2,
                   [&](step_context& context) {
                     if (context.replica == 1 && context.step == 1)
                       becomes_true([&] { return released.load(); });
                     context.contribute(2, tensor::full({10}, 1));
                     context.sum(2);
                   },
                   {}});
    },
    ec::stalled);
  released = true;
  EXPECT_TRUE(mentions(
    error_text,
    "replica 0 waits for the sum of bucket 2, still missing replica 1"))
    << error_text;
}

TEST(LaneGroup, DuplicateOrLatePacketsChangeNoBit) {
  for (const auto kind : {message_kind::contribution, message_kind::result})
    for (const auto fault : {fault_injector::injected_fault{.duplicated = true},
                             fault_injector::injected_fault{.delay = 2ms}}) {
      const auto injector =
        std::make_shared<step_fault_injector>(kind, 1, fault);
      outcome wanted, out;
      make_sequential_group({.replicas = 3})->run(wanted.request(0, 3));
      lane_backend_group fixture{{0, 1, 2, 3}, "shm", 10s, injector};
      fixture.run(out.request(0, 3));
      EXPECT_GT(injector->times, 0);
      for (const auto& [key, sum] : wanted.sums)
        ASSERT_TRUE(same_bits(out.sums.at(key), sum));
    }
}

TEST(LaneGroup, NamesTheMissingInputWhenPacketsAreDropped) {
  for (const auto kind : {message_kind::contribution, message_kind::result}) {
    const auto injector = std::make_shared<step_fault_injector>(
      kind, 1, fault_injector::injected_fault{.dropped = true});
    outcome out;
    lane_backend_group fixture{{0, 1, 2}, "shm", 300ms, injector};
    const auto error_text =
      job_error_of([&] { fixture.run(out.request(0, 4)); }, ec::stalled);
    EXPECT_TRUE(mentions(error_text, "waits for the sum of bucket"))
      << error_text;
    EXPECT_TRUE(mentions(error_text, "still missing replica")) << error_text;
    // The next packets show that these are missing.
    outcome again;
    const auto later =
      job_error_of([&] { fixture.run(again.request(2, 2)); }, ec::unreachable);
    EXPECT_TRUE(mentions(later, "a packet was lost: number ")) << later;
  }
}
