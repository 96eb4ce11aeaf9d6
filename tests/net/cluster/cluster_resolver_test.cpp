#include "troupe/net/cluster/simple_resolver.hpp"
#include "troupe/net/cluster/union_resolver.hpp"
#include "troupe/tests/net/base/thrown.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe::net;
using list = cluster_spec::list;
using dict = cluster_spec::dict;
using lists = std::map<std::string, list>;
using dicts = std::map<std::string, dict>;

const cluster_spec workers{lists{{"worker", {"a:1", "b:1"}}}};

TEST(SimpleResolver, ReturnsItsOptions) {
  const simple_resolver resolver{workers,
                                 {.master = "a:1",
                                  .task_type = "worker",
                                  .task_id = 1,
                                  .rpc_layer = "rpc",
                                  .environment = "lab"}};
  EXPECT_EQ(resolver.cluster_spec(), workers);
  EXPECT_EQ(resolver.task(), (cluster_task{"worker", 1}));
  EXPECT_EQ(resolver.master(), "rpc://a:1");
  EXPECT_EQ(resolver.master({.task_type = "worker", .task_id = 1}),
            "rpc://b:1");
  EXPECT_EQ(resolver.master({.rpc_layer = ""}), "a:1");
  EXPECT_EQ(resolver.rpc_layer(), "rpc");
  EXPECT_EQ(resolver.environment(), "lab");
}

TEST(SimpleResolver, NeedsOnlyACluster) {
  const simple_resolver x{workers};
  EXPECT_EQ(x.task(), std::nullopt);
  EXPECT_EQ(x.master(), "");
  EXPECT_EQ(x.environment(), "");
}

TEST(SimpleResolver, RejectsATaskThatIsNotInTheCluster) {
  EXPECT_EQ(thrown([] {
              simple_resolver{workers, {.task_type = "worker", .task_id = 2}};
            }),
            "No task with index 2 in job \"worker\"; there is 0 to 1");
  EXPECT_NE(thrown([] {
              simple_resolver{workers}.master(
                {.task_type = "chief", .task_id = 0});
            }),
            "");
}

union_resolver::source source_of(cluster_spec x,
                                 simple_resolver::options own = {}) {
  return std::make_shared<simple_resolver>(std::move(x), std::move(own));
}

TEST(UnionResolver, ConcatenatesLists) {
  const union_resolver x{
    {source_of(workers),
     source_of(cluster_spec{lists{{"worker", {"c:1"}}, {"ps", {"d:1"}}}})}};
  EXPECT_EQ(
    x.cluster_spec(),
    (cluster_spec{lists{{"worker", {"a:1", "b:1", "c:1"}}, {"ps", {"d:1"}}}}));
}

TEST(UnionResolver, MergesDictsAndListsIfOneIsADict) {
  const union_resolver x{
    {source_of(workers),
     source_of(cluster_spec{dicts{{"worker", {{3, "d:1"}}}}})}};
  EXPECT_EQ(
    x.cluster_spec(),
    (cluster_spec{dicts{{"worker", {{0, "a:1"}, {1, "b:1"}, {3, "d:1"}}}}}));
}

TEST(UnionResolver, RejectsADuplicateIndex) {
  const union_resolver x{
    {source_of(workers),
     source_of(cluster_spec{dicts{{"worker", {{1, "c:1"}}}}})}};
  EXPECT_EQ(thrown([&] { x.cluster_spec(); }),
            "Duplicate task 1 of job \"worker\" when clusters are merged: "
            "\"b:1\" and \"c:1\"; give each index once");
}

TEST(UnionResolver, TakesOtherValuesFromTheFirstSource) {
  const auto first = source_of(workers, {.master = "a:1",
                                         .task_type = "worker",
                                         .task_id = 1,
                                         .rpc_layer = "rpc",
                                         .environment = "lab"});
  const auto second =
    source_of(cluster_spec{lists{{"ps", {"d:1"}}}}, {.environment = "other"});
  const union_resolver x{{first, second}};
  EXPECT_EQ(x.task(), (cluster_task{"worker", 1}));
  EXPECT_EQ(x.master(), "rpc://a:1");
  EXPECT_EQ(x.master({.task_type = "ps", .task_id = 0}), "rpc://d:1");
  EXPECT_EQ(x.environment(), "lab");
}

TEST(UnionResolver, LetsIndex0OverrideThatOfTheFirstSource) {
  const union_resolver x{
    {source_of(workers,
               {.task_type = "worker", .task_id = 1, .rpc_layer = "rpc"})},
    {.task_id = 0, .rpc_layer = ""}};
  EXPECT_EQ(x.task(), (cluster_task{"worker", 0}));
  EXPECT_EQ(x.rpc_layer(), "");
}

TEST(UnionResolver, NeedsASource) {
  const std::string sentence =
    "A union of resolvers needs at least one, and none may be null";
  EXPECT_EQ(thrown([] { union_resolver{{}}; }), sentence);
  EXPECT_EQ(thrown([] {
              union_resolver{{source_of(workers), nullptr}};
            }),
            sentence);
}

} // namespace
