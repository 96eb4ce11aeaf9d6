#include "troupe/net/cluster/cluster_task.hpp"
#include "troupe/tests/net/base/thrown.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe::net;
using list = cluster_spec::list;
using dict = cluster_spec::dict;
using indices = std::vector<task_index>;

const cluster_spec dense{
  std::map<std::string, list>{{"worker", {"a:1", "b:1"}}, {"ps", {"c:1"}}}};
const cluster_spec sparse{
  std::map<std::string, dict>{{"worker", {{1, "b:1"}, {3, "d:1"}}}}};

TEST(ClusterSpec, NumbersTheTasksOfAList) {
  EXPECT_EQ(dense.jobs(), (list{"ps", "worker"}));
  EXPECT_EQ(dense.num_tasks("worker"), 2u);
  EXPECT_EQ(dense.task_indices("worker"), (indices{0, 1}));
  EXPECT_EQ(dense.task_address("worker", 1), "b:1");
}

TEST(ClusterSpec, KeepsTheIndicesOfADict) {
  EXPECT_EQ(sparse.num_tasks("worker"), 2u);
  EXPECT_EQ(sparse.task_indices("worker"), (indices{1, 3}));
  EXPECT_EQ(sparse.task_address("worker", 3), "d:1");
}

TEST(ClusterSpec, IsAListIfNoIndexIsMissing) {
  EXPECT_EQ(std::get<list>(dense.as_dict().at("worker")), (list{"a:1", "b:1"}));
  EXPECT_EQ(std::get<dict>(sparse.as_dict().at("worker")),
            (dict{{1, "b:1"}, {3, "d:1"}}));
  const cluster_spec whole{
    std::map<std::string, dict>{{"ps", {{1, "b:1"}, {0, "a:1"}}}}};
  EXPECT_EQ(std::get<list>(whole.as_dict().at("ps")), (list{"a:1", "b:1"}));
}

TEST(ClusterSpec, NamesUnknownJobsAndTasks) {
  EXPECT_EQ(thrown([] { dense.num_tasks("chief"); }),
            "No such job in cluster: \"chief\"; there is ps, worker");
  EXPECT_EQ(thrown([] { dense.task_address("worker", 2); }),
            "No task with index 2 in job \"worker\"; there is 0 to 1");
  EXPECT_EQ(thrown([] { sparse.task_address("worker", 0); }),
            "No task with index 0 in job \"worker\"; there is 1, 3");
  EXPECT_EQ(thrown([] { cluster_spec{}.task_indices("worker"); }),
            "No such job in cluster: \"worker\"; there is none");
}

TEST(ClusterSpec, MayBeEmpty) {
  EXPECT_TRUE(cluster_spec{}.empty());
  EXPECT_TRUE(cluster_spec{}.as_dict().empty());
}

TEST(ClusterTask, NumbersTheChiefFirstAndThenTheWorkers) {
  const cluster_spec cluster{std::map<std::string, list>{
    {"chief", {"a:1"}}, {"worker", {"b:1", "c:1"}}, {"ps", {"d:1"}}}};
  EXPECT_EQ(id_in_cluster(cluster, {"chief", 0}), 0u);
  EXPECT_EQ(id_in_cluster(cluster, {"worker", 0}), 1u);
  EXPECT_EQ(id_in_cluster(cluster, {"worker", 1}), 2u);
  EXPECT_EQ(worker_count(cluster, {"worker", 1}), 3u);
  EXPECT_EQ(id_in_cluster(dense, {"worker", 1}), 1u);
  EXPECT_EQ(worker_count(dense, {"worker", 1}), 2u);
}

TEST(ClusterTask, IsChiefIfItIsWorker0AndThereIsNoChief) {
  const cluster_spec cluster{
    std::map<std::string, list>{{"chief", {"a:1"}}, {"worker", {"b:1"}}}};
  EXPECT_TRUE(is_chief(cluster, {"chief", 0}));
  EXPECT_FALSE(is_chief(cluster, {"worker", 0}));
  EXPECT_TRUE(is_chief(dense, {"worker", 0}));
  EXPECT_FALSE(is_chief(dense, {"worker", 1}));
  EXPECT_FALSE(is_chief(dense, {"ps", 0}));
  EXPECT_EQ(collective_leader(cluster, {"worker", 0}),
            (cluster_task{"chief", 0}));
  EXPECT_EQ(collective_leader(dense, {"worker", 1}),
            (cluster_task{"worker", 0}));
}

TEST(ClusterTask, TheFirstPsLeadsTheCoordination) {
  EXPECT_EQ(coordination_leader(dense), (cluster_task{"ps", 0}));
  const cluster_spec x{
    std::map<std::string, list>{{"chief", {"a:1"}}, {"worker", {"b:1"}}}};
  EXPECT_EQ(coordination_leader(x), (cluster_task{"chief", 0}));
  EXPECT_EQ(coordination_leader(cluster_spec{}), std::nullopt);
}

TEST(ClusterTask, AnEvaluatorIsAlone) {
  const cluster_task evaluator{"evaluator", 0};
  EXPECT_TRUE(is_chief(dense, evaluator));
  EXPECT_EQ(id_in_cluster(dense, evaluator), 0u);
  EXPECT_EQ(worker_count(dense, evaluator), 1u);
  EXPECT_EQ(collective_leader(dense, evaluator), std::nullopt);
}

TEST(ClusterTask, InAnEmptyClusterIsAlone) {
  const cluster_task alone{"worker", 0};
  EXPECT_TRUE(is_chief({}, alone));
  EXPECT_EQ(id_in_cluster({}, alone), 0u);
  EXPECT_EQ(worker_count({}, alone), 1u);
  EXPECT_EQ(collective_leader({}, alone), std::nullopt);
}

TEST(ClusterTask, IsRejectedWithARemedy) {
  const cluster_spec two_chiefs{
    std::map<std::string, list>{{"chief", {"a:1", "b:1"}}}};
  EXPECT_NE(thrown([&] {
              check_task(two_chiefs, {"chief", 0});
            }).find("at most one chief"),
            std::string::npos);
  EXPECT_EQ(thrown([] {
              check_task(dense, {"wrker", 0});
            }),
            "Unrecognized task type \"wrker\"; give chief, worker, ps or "
            "evaluator");
  EXPECT_NE(thrown([] { check_task(dense, {"chief", 0}); }), "");
  EXPECT_NE(thrown([] { check_task(dense, {"worker", 2}); }), "");
  EXPECT_NE(thrown([] { check_task(dense, {"evaluator", 1}); }), "");
  EXPECT_NE(thrown([] { id_in_cluster(dense, {"ps", 0}); }), "");
  EXPECT_NE(thrown([] { worker_count(dense, {"ps", 0}); }), "");
}

} // namespace
