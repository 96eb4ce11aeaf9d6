#include "troupe/strategies/collective/operation_log.hpp"
#include "troupe/tests/support/placements.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;

namespace {

/// The log of a process that hosts replicas 2 and 3 of 5.
struct two_replicas {
  two_replicas() {
    log.start_generation(1);
    for (const std::uint32_t r : {2, 3}) {
      log.join_generation(r, 1);
      log.begin_step(r, 7);
    }
  }
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& input = tensor::full({4}, 1)) {
    log.contribute(replica, bucket, input, {}, output_placement::separate);
  }
  /// Starts the next operation, which then has `items` items left.
  operation& start(std::uint32_t items) {
    auto& op = *log.next_ready();
    op.remaining = items;
    log.mark_started();
    return op;
  }

  local_placement placed{troupe::testing::placement_of({0, 2, 4, 5}), 1};
  operation_log log{placed};
};

using ids = std::vector<std::uint32_t>;

} // namespace

TEST(OperationLog, NumbersCallsAndKnowsWhoHasNotCalled) {
  two_replicas setup;
  setup.contribute(3, 9);
  setup.contribute(3, 1);
  EXPECT_EQ(setup.log.end(), 2u);
  EXPECT_EQ(setup.log.calls_of(3), 2u);
  EXPECT_EQ(setup.log.calls_of(2), 0u);
  EXPECT_EQ(setup.log.replicas_without(0), ids{2});
  setup.contribute(2, 9);
  EXPECT_EQ(setup.log.replicas_without(0), ids{});
  EXPECT_EQ(setup.log.replicas_without(1), ids{2});
  EXPECT_EQ(setup.log.replicas_without(2), (ids{2, 3}));
  EXPECT_EQ(setup.log[1].bucket, 1u);
  EXPECT_EQ(setup.log[1].sequence, 1u);
  EXPECT_EQ(setup.log[1].step, 7u);
}

TEST(OperationLog, IsReadyWhenAllLocalReplicasHaveCalled) {
  two_replicas setup;
  EXPECT_FALSE(setup.log.next_ready());
  setup.contribute(2, 0);
  EXPECT_FALSE(setup.log.next_ready());
  setup.contribute(3, 0);
  EXPECT_EQ(setup.log.next_ready(), &setup.log[0]);
  setup.start(1);
  EXPECT_EQ(setup.log.started(), 1u);
  EXPECT_FALSE(setup.log.next_ready());
}

TEST(OperationLog, CompletesInAnyOrderButCountsTheFirstIncomplete) {
  two_replicas setup;
  for (const std::uint32_t bucket : {0, 1, 2})
    for (const std::uint32_t r : {2, 3})
      setup.contribute(r, bucket);
  setup.start(2);
  setup.start(1);
  setup.start(0); // an empty bucket has no items
  EXPECT_EQ(setup.log.completed(), 1u);
  setup.log.complete_item(setup.log[1]);
  EXPECT_EQ(setup.log.completed(), 2u);
  EXPECT_EQ(setup.log.first_incomplete(), 0u);
  setup.log.complete_item(setup.log[0]);
  EXPECT_EQ(setup.log.first_incomplete(), 0u);
  EXPECT_FALSE(setup.log.sum_of(2, 0));
  setup.log[0].output = tensor::full({4}, 2);
  setup.log.complete_item(setup.log[0]);
  EXPECT_EQ(setup.log.first_incomplete(), 3u);
  EXPECT_TRUE(setup.log.sum_of(2, 0));
}

TEST(OperationLog, RejectsDifferentAndRepeatedCalls) {
  two_replicas setup;
  setup.contribute(2, 5);
  EXPECT_THROW(setup.contribute(2, 5), std::logic_error);
  EXPECT_THROW(setup.contribute(3, 6), std::logic_error);
  EXPECT_THROW(setup.contribute(3, 5, tensor::full({5}, 1)), std::logic_error);
  EXPECT_THROW(setup.contribute(3, 5, tensor::full({4}, 1, dtype::int32)),
               std::logic_error);
  EXPECT_EQ(setup.log.calls_of(3), 0u) << "a rejected call does not count";
  EXPECT_NO_THROW(setup.contribute(3, 5));
  EXPECT_NO_THROW(setup.log.gather(2, 5, tensor::full({1}, 1), {}));
}

TEST(OperationLog, KeepsWhatAQueueOrAReplicaNeeds) {
  two_replicas setup;
  const auto input = tensor::full({4}, 1);
  setup.contribute(2, 0, input);
  setup.contribute(3, 0);
  setup.start(1);
  for (const std::uint32_t r : {2, 3})
    setup.log.end_step(r);
  setup.log.trim(1);
  EXPECT_FALSE(input.unique()) << "the operation is not complete";
  setup.log.complete_item(setup.log[0]);
  setup.log.trim(0);
  EXPECT_FALSE(input.unique()) << "a queue needs it";
  setup.log.note_zero_copy();
  setup.log.trim(1);
  EXPECT_FALSE(input.unique()) << "a peer may read it";
  setup.log.release_zero_copy();
  EXPECT_TRUE(input.unique());
  EXPECT_EQ(setup.log.end(), 1u) << "numbers are not used again";
}

TEST(OperationLog, StartsGenerationsEmpty) {
  two_replicas setup;
  const auto input = tensor::full({4}, 1);
  setup.contribute(2, 0, input);
  setup.log.abort();
  EXPECT_TRUE(input.unique());
  EXPECT_FALSE(setup.log.is_current(2));
  setup.log.start_generation(2);
  EXPECT_FALSE(setup.log.is_current(2)) << "it has not joined";
  setup.log.join_generation(2, 2);
  EXPECT_TRUE(setup.log.is_current(2));
  EXPECT_EQ(setup.log.end(), 0u);
  EXPECT_EQ(setup.log.calls_of(2), 0u);
  setup.contribute(2, 0);
  EXPECT_FALSE(setup.log.next_ready()) << "replica 3 is in generation 1";
}
