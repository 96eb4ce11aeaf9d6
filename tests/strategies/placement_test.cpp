#include "troupe/strategies/placement.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

using namespace troupe;

namespace {

using ids = placement::id_list;
using lists = std::vector<ids>;

} // namespace

TEST(Placement, OfOneProcessHostsAllReplicasThere) {
  const placement x{3};
  EXPECT_EQ(x.processes(), 1u);
  EXPECT_EQ(x.replicas(), 3u);
  EXPECT_EQ(x.replicas_of(0), (ids{0, 1, 2}));
  EXPECT_EQ(x.ranges_of(0), (std::vector<replica_range>{{0, 3}}));
}

TEST(Placement, OfCountsIsContiguous) {
  const auto x = placement::contiguous({2, 0, 3});
  EXPECT_EQ(x.processes(), 3u);
  EXPECT_EQ(x.replicas(), 5u);
  EXPECT_EQ(x.replicas_of(0), (ids{0, 1}));
  EXPECT_EQ(x.replicas_of(1), ids{});
  EXPECT_EQ(x.replicas_of(2), (ids{2, 3, 4}));
  EXPECT_EQ(x.ranges_of(1), std::vector<replica_range>{});
  EXPECT_EQ(x.process_of(4), 2u);
  EXPECT_EQ(x.index_of(4), 2u);
}

TEST(Placement, MayScatterReplicas) {
  const placement x{lists{{5, 0, 1}, {}, {3, 2, 4}}};
  EXPECT_EQ(x.replicas_of(0), (ids{0, 1, 5}));
  EXPECT_EQ(x.ranges_of(0), (std::vector<replica_range>{{0, 2}, {5, 6}}));
  EXPECT_EQ(x.ranges_of(2), (std::vector<replica_range>{{2, 5}}));
  EXPECT_EQ(x.process_of(5), 0u);
  EXPECT_EQ(x.index_of(5), 2u);
  EXPECT_EQ(x.index_of(2), 0u);
}

TEST(Placement, RejectsListsThatAreNoPartitionOfTheReplicas) {
  EXPECT_THROW((placement{lists{{0, 1}, {1}}}), std::logic_error);
  EXPECT_THROW((placement{lists{{0, 2}}}), std::logic_error);
  EXPECT_THROW((placement{lists{{0, 0}}}), std::logic_error);
  EXPECT_NO_THROW((placement{lists{{}, {0}}}));
}

TEST(LocalPlacement, KnowsTheReplicasOfItsProcess) {
  const local_placement x{placement{lists{{0, 2}, {1}}}, 1};
  EXPECT_EQ(x.replicas(), ids{1});
  EXPECT_EQ(x.count(), 1u);
  EXPECT_TRUE(x.hosts(1));
  EXPECT_FALSE(x.hosts(0));
  EXPECT_FALSE(x.hosts(3));
  EXPECT_FALSE(x.hosts_all());
  EXPECT_TRUE(local_placement{placement{2}}.hosts_all());
}
