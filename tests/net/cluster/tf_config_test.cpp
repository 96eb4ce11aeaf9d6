#include "troupe/net/cluster/tf_config.hpp"
#include "troupe/net/cluster/tf_config_resolver.hpp"
#include "troupe/tests/net/base/thrown.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

using namespace troupe::net;

/// Unsets TF_CONFIG before and after each test.
class TfConfig : public ::testing::Test {
protected:
  TfConfig() { ::unsetenv("TF_CONFIG"); }
  ~TfConfig() override { ::unsetenv("TF_CONFIG"); }

  static void set_variable(const std::string& text) {
    ::setenv("TF_CONFIG", text.c_str(), 1);
  }

  const tf_config_resolver resolver = troupe::tf_config();
};

const std::string two_workers =
  R"("cluster": {"worker": ["10.0.0.1:2222", "[fd00::2]:2222"]},
     "task": {"type": "worker", "index": 1})";

TEST_F(TfConfig, DescribesTheCluster) {
  set_variable("{" + two_workers
               + R"(, "environment": "cloud", "other": [1]})");
  EXPECT_EQ(resolver.cluster_spec().task_address("worker", 0), "10.0.0.1:2222");
  EXPECT_EQ(resolver.cluster_spec().num_tasks("worker"), 2u);
  EXPECT_EQ(resolver.task(), (cluster_task{"worker", 1}));
  EXPECT_EQ(resolver.environment(), "cloud");
  EXPECT_EQ(resolver.rpc_layer(), "");
}

TEST_F(TfConfig, NamesNoMasterForOneWorkerWithoutAChief) {
  set_variable(R"({"cluster": {"worker": ["a:1"]},
          "task": {"type": "worker", "index": 0}, "rpc_layer": "rpc"})");
  EXPECT_EQ(resolver.master(), "");
}

TEST_F(TfConfig, NamesThisTasksAddressAsMasterOfTwoWorkers) {
  set_variable("{" + two_workers + R"(, "rpc_layer": "rpc"})");
  EXPECT_EQ(resolver.master(), "rpc://[fd00::2]:2222");
  EXPECT_EQ(resolver.master({.task_id = 0}), "rpc://10.0.0.1:2222");
  EXPECT_EQ(resolver.master({.rpc_layer = "grpc"}), "grpc://[fd00::2]:2222");
  set_variable("{" + two_workers + "}");
  EXPECT_EQ(resolver.master(), "[fd00::2]:2222");
}

TEST_F(TfConfig, LetsTheSessionMasterWin) {
  set_variable("{" + two_workers
               + R"(, "session_master": "m:1", "rpc_layer": "rpc"})");
  EXPECT_EQ(resolver.master(), "m:1");
  set_variable(R"({"session_master": "m:1"})");
  EXPECT_EQ(resolver.master(), "m:1");
}

TEST_F(TfConfig, IsLocalIfItIsNotSet) {
  for (const auto* text :
       {"", "{}", R"({"cluster": {}})", R"({"cluster": null, "task": {}})"}) {
    SCOPED_TRACE(text);
    set_variable(text);
    EXPECT_TRUE(resolver.cluster_spec().empty());
    EXPECT_EQ(resolver.task(), std::nullopt);
    EXPECT_EQ(resolver.master(), "");
  }
  ::unsetenv("TF_CONFIG");
  EXPECT_TRUE(resolver.cluster_spec().empty());
}

TEST_F(TfConfig, IsReadInEveryCall) {
  set_variable("{" + two_workers + "}");
  EXPECT_EQ(resolver.task_id(), 1u);
  set_variable(R"({"task": {"type": "chief", "index": 0}})");
  EXPECT_EQ(resolver.task(), (cluster_task{"chief", 0}));
  EXPECT_TRUE(resolver.cluster_spec().empty());
}

TEST_F(TfConfig, MayHaveTheIndexAsAText) {
  for (const auto* index : {"1", "\"1\"", "\"01\""}) {
    SCOPED_TRACE(index);
    set_variable(R"({"cluster": {"worker": ["a:1", "b:1"]},
            "task": {"type": "worker", "index": )"
                 + std::string{index} + "}}");
    EXPECT_EQ(resolver.task(), (cluster_task{"worker", 1}));
  }
}

TEST_F(TfConfig, NeedNotListTheEvaluator) {
  set_variable(R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]},
          "task": {"type": "evaluator", "index": 0}})");
  EXPECT_EQ(resolver.task(), (cluster_task{"evaluator", 0}));
  EXPECT_TRUE(is_chief(resolver.cluster_spec(), *resolver.task()));
}

TEST_F(TfConfig, IsOverriddenByTheProgram) {
  set_variable("{" + two_workers + R"(, "rpc_layer": "rpc"})");
  const tf_config_resolver own{
    {.task_id = 0, .rpc_layer = "", .environment = "lab"}};
  EXPECT_EQ(own.task(), (cluster_task{"worker", 0}));
  EXPECT_EQ(own.master(), "10.0.0.1:2222");
  EXPECT_EQ(own.environment(), "lab");
}

TEST_F(TfConfig, ReadsWhatItWrites) {
  const cluster_spec cluster{std::map<std::string, cluster_spec::list>{
    {"chief", {"a:1"}}, {"worker", {"[::1]:2", "c:3"}}}};
  set_variable(write_tf_config(cluster, {"worker", 1}));
  EXPECT_EQ(resolver.cluster_spec(), cluster);
  EXPECT_EQ(resolver.task(), (cluster_task{"worker", 1}));
}

TEST_F(TfConfig, HasNoMasterWithoutATask) {
  set_variable(R"({"cluster": {"worker": ["a:1", "b:1"]}})");
  EXPECT_NE(thrown([&] { resolver.master(); }).find("task is missing"),
            std::string::npos);
  EXPECT_EQ(resolver.master({.task_type = "worker", .task_id = 1}), "b:1");
}

struct invalid_config {
  std::string text;
  std::string message; ///< Error message without the prefix "TF_CONFIG: ".
};

std::string in_cluster(const std::string& x) {
  return R"({"cluster": )" + x + "}";
}

std::string with_task(const std::string& x) {
  return R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": )" + x + "}";
}

const auto example = R"(give {"cluster": {...}, "task": {...}})";
const auto jobs = "give chief, worker, ps or evaluator";
const auto whole = R"(give a whole number from 0, as in 0 or "0")";

const std::vector<invalid_config> malformed{
  {"{", "this is not valid JSON at byte 2; " + std::string{example}},
  {"worker", "this is not valid JSON at byte 1; " + std::string{example}},
  {"{} {}", "this is not valid JSON at byte 4; " + std::string{example}},
  {"{\"cluster\": \"\xff\"}",
   "this is not valid JSON at byte 14; " + std::string{example}},
  {"[]", "this is a list; give an object, "
         R"({"cluster": {...}, "task": {...}})"},
  {R"({"task": {}, "task": {}})",
   R"(the key "task" appears twice in one object; remove one)"},
  {in_cluster("1e999"), "a number is too large; indices are below 4294967296"},
  {in_cluster("[]"), "cluster is a list; give an object, as in "
                     R"({"worker": ["10.0.0.1:2222"]})"},
  {in_cluster(R"({"master": ["a:1"]})"),
   R"(cluster has the job "master"; )" + std::string{jobs}},
  {in_cluster(R"({"worker": "a:1"})"),
   R"(cluster.worker is "a:1"; give a list of addresses, )"
   R"(as in ["10.0.0.1:2222"])"},
  {in_cluster(R"({"worker": {"0": "a:1"}})"),
   "cluster.worker is an object; give a list of addresses, "
   R"(as in ["10.0.0.1:2222"])"},
  {in_cluster(R"({"worker": []})"),
   "cluster.worker has no addresses; give some, or leave it out"},
  {in_cluster(R"({"worker": ["a:1", "b:1", "a:1"]})"),
   R"(cluster.worker[2] is "a:1" like cluster.worker[0]; give each task an )"
   "address of its own"},
  {in_cluster(R"({"chief": ["a:1"], "worker": ["a:1"]})"),
   R"(cluster.worker[0] is "a:1" like cluster.chief[0]; give each task an )"
   "address of its own"},
  {in_cluster(R"({"chief": ["a:1", "b:1"]})"),
   "cluster.chief has 2 addresses; there must be at most one chief"},
  {in_cluster(R"({"evaluator": ["a:1", "b:1"]})"),
   "cluster.evaluator has 2 addresses; there must be at most one evaluator"},
  {with_task("1"), R"(task is 1; give an object, as in )"
                   R"({"type": "worker", "index": 0})"},
  {with_task(R"({"index": 0})"), "task.type is missing; " + std::string{jobs}},
  {with_task(R"({"type": "master", "index": 0})"),
   R"(task.type is "master"; )" + std::string{jobs}},
  {with_task(R"({"type": 1, "index": 0})"),
   "task.type is 1; " + std::string{jobs}},
  {with_task(R"({"type": "ps", "index": 0})"),
   R"(task.type is "ps", but cluster has no ps; give one of its jobs, )"
   "or add cluster.ps"},
  {with_task(R"({"type": "worker"})"),
   "task.index is missing; give this process's, as in 0"},
  {with_task(R"({"type": "worker", "index": ""})"),
   R"(task.index is ""; )" + std::string{whole}},
  {with_task(R"({"type": "worker", "index": "0x1"})"),
   R"(task.index is "0x1"; )" + std::string{whole}},
  {with_task(R"({"type": "worker", "index": "4294967296"})"),
   R"(task.index is "4294967296"; )" + std::string{whole}},
  {with_task(R"({"type": "worker", "index": 0.0})"),
   "task.index is 0.0; " + std::string{whole}},
  {with_task(R"({"type": "worker", "index": true})"),
   "task.index is true; " + std::string{whole}},
  {with_task(R"({"type": "worker", "index": -1})"),
   "task.index is -1; " + std::string{whole}},
  {with_task(R"({"type": "worker", "index": 18446744073709551615})"),
   "task.index is 18446744073709551615; " + std::string{whole}},
  {with_task(R"({"type": "worker", "index": 2})"),
   "task.index is 2, but cluster.worker has 2 tasks; give 0 to 1"},
  {with_task(R"({"type": "evaluator", "index": 1})"),
   "task.index is 1; there must be at most one evaluator: give 0"},
  {R"({"rpc_layer": 1})", R"(rpc_layer is 1; give a text, as in "grpc")"},
  {R"({"session_master": []})",
   R"(session_master is a list; give a text, as in "10.0.0.1:2222")"},
  {R"({"environment": {}})",
   R"(environment is an object; give a text, as in "cloud")"},
};

TEST_F(TfConfig, IsRejectedInOneSentenceWithTheKeyAndARemedy) {
  for (const auto& invalid : malformed) {
    SCOPED_TRACE(invalid.text);
    EXPECT_EQ(thrown([&] { parse_tf_config(invalid.text); }),
              "TF_CONFIG: " + invalid.message);
    set_variable(invalid.text);
    EXPECT_EQ(thrown([&] { resolver.cluster_spec(); }),
              "TF_CONFIG: " + invalid.message);
  }
}

TEST_F(TfConfig, NeedsAddressesWithAPort) {
  for (const std::string bad :
       {"1", "null", "\"\"", "\"a\"", "\":1\"", "\"a:\"", "\"a:0\"",
        "\"a:65536\"", "\"a:1x\"", "\"a:-1\"", "\"a b:1\"", "\"a\\n:1\"",
        "\"::1:80\"", "\"grpc://a:1\""}) {
    SCOPED_TRACE(bad);
    EXPECT_EQ(thrown([&] {
                parse_tf_config(
                  in_cluster("{\"worker\": [\"ok:1\", " + bad + "]}"));
              }),
              "TF_CONFIG: cluster.worker[1] is " + bad
                + R"(; give an address with its port, as in "10.0.0.1:2222")");
  }
}

TEST_F(TfConfig, IsRejectedBeforeItUsesMemoryOrStack) {
  const auto deep = std::string(100'000, '[');
  EXPECT_NE(
    thrown([&] { parse_tf_config(deep); }).find("deeper than 32 levels"),
    std::string::npos);
  const auto large = std::string(tf_limits::max_bytes + 1, ' ');
  EXPECT_NE(thrown([&] { parse_tf_config(large); }).find("too many"),
            std::string::npos);
  const auto wordy =
    in_cluster("{\"worker\": [\"" + std::string(5000, 'a') + "\"]}");
  EXPECT_LT(thrown([&] { parse_tf_config(wordy); }).size(), 200u);
}

} // namespace
