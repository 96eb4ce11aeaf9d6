#include "launches.hpp"
#include "troupe/net/cluster/tf_config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

// `troupe launch --servers`: a chief, workers, parameter servers and an
// evaluator.

namespace {

using namespace troupe;

/// In the script, `is worker 1` is true in this task. `tell NAME` writes to a
/// pipe, and `hear NAME` waits until another process has written to it.
class LaunchServers : public Launch {
protected:
  LaunchServers() {
    for (const auto* name : {"go", "there"}) {
      EXPECT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
      pipes_.push_back(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC));
    }
  }
  ~LaunchServers() override {
    for (const auto one : pipes_)
      ::close(one);
  }

  void tasks(const std::string& text) const {
    script("is() { case $TF_CONFIG in *'\"task\":{\"index\":'$2',\"type\":\"'$1"
           "'\"}'*) ;; *) false;; esac; }\n"
           "tell() { echo on >$1; }\n"
           "hear() { read x <$1; }\n"
           + text);
  }

private:
  std::vector<int> pipes_;
};

TEST_F(LaunchServers, GiveEachTaskItsPlaceInOneCluster) {
  tasks("echo \"$TF_CONFIG\"\n"
        "if is chief 0; then for i in 1 2 3 4; do hear go; done; exit 0; fi\n"
        "tell go; stay");
  const auto done = launch("--workers 2 --servers 1 --evaluator --grace 0");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto outputs = output_by_name(done.out);
  std::set<std::string> names;
  const auto cluster = net::parse_tf_config(outputs.at("chief 0")).cluster;
  EXPECT_EQ(cluster.num_tasks("chief"), 1u);
  EXPECT_EQ(cluster.num_tasks("worker"), 2u);
  EXPECT_EQ(cluster.num_tasks("ps"), 1u);
  EXPECT_FALSE(cluster.has("evaluator"));
  for (const auto& [name, output] : outputs) {
    const auto x = net::parse_tf_config(output);
    EXPECT_EQ(x.cluster, cluster);
    EXPECT_EQ(*x.task_type + " " + std::to_string(*x.task_id), name);
    names.insert(name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"chief 0", "evaluator 0", "ps 0",
                                          "worker 0", "worker 1"}));
}

/// The evaluator goes on until the worker has ended.
TEST_F(LaunchServers, EndWithTheirChief) {
  tasks("if is chief 0; then hear go; exit 0; fi\n"
        "if is ps 0; then trap 'echo told; exit 0' TERM; tell there; stay; fi\n"
        "if is worker 0; then echo $$ >id; tell there; stay; fi\n"
        "hear there; hear there; tell go\n"
        "tail --pid=$(cat id) -f /dev/null; echo evaluated");
  const auto done = launch("--workers 1 --servers 1 --evaluator --grace 1000");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.err, "");
  const auto outputs = output_by_name(done.out);
  EXPECT_EQ(outputs.at("ps 0"), "told\n");
  EXPECT_EQ(outputs.at("evaluator 0"), "evaluated\n");
}

TEST_F(LaunchServers, SignalTheChiefOnly) {
  tasks("if is chief 0; then trap 'echo trapped; exit 5' INT\n"
        "else trap 'echo trapped' INT; trap 'echo told; exit 0' TERM; fi\n"
        "echo ready >&2; stay");
  const auto done =
    launch("--workers 1 --servers 1 --grace 100",
           when_ready(3, [](pid_t tool) { ::kill(tool, SIGINT); }));
  EXPECT_EQ(done.code, 5) << done.err;
  auto outputs = output_by_name(done.out);
  EXPECT_EQ(outputs["chief 0"], "trapped\n");
  EXPECT_EQ(outputs["worker 0"], "told\n");
  EXPECT_EQ(outputs["ps 0"], "told\n");
  EXPECT_EQ(last_line_of(done.err),
            "troupe: signal 2 (Interrupt) was passed on; chief 0 failed first: "
            "exit code 5");
}

/// When `tail` ends, the launcher knows that the evaluator has failed.
TEST_F(LaunchServers, GoOnWhenTheEvaluatorFails) {
  for (const std::string end : {"exit 3", "kill -9 $$"}) {
    tasks("if is evaluator 0; then echo $$ >id; tell there; " + end
          + "; fi\n"
            "is chief 0 || stay\n"
            "hear there; tail --pid=$(cat id) -f /dev/null; exit 0");
    const auto done = launch("--workers 1 --servers 1 --evaluator --grace 0");
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(done.err, "");
  }
}

/// When `tail` ends, the launcher knows that the evaluator has ended.
TEST_F(LaunchServers, StartAWorkerAgainAfterTheEvaluatorHasEnded) {
  tasks("if is evaluator 0; then echo $$ >id; tell there; exit 0; fi\n"
        "if is chief 0; then hear go; exit 0; fi\n"
        "is worker 0 || stay\n"
        "if [ -e once ]; then tell go; stay; fi\n"
        "touch once; hear there; tail --pid=$(cat id) -f /dev/null\n"
        "kill -9 $$");
  const auto done =
    launch("--workers 1 --servers 1 --evaluator --restarts 1 --grace 0");
  EXPECT_EQ(done.code, 0) << done.err;
}

TEST_F(LaunchServers, EndWhenATaskFails) {
  for (const std::string task : {"worker 1", "ps 0", "chief 0"})
    for (const auto& [end, code, reason] :
         {std::tuple{"exit 3", 3, "exit code 3"},
          {"kill -9 $$", 137, "signal 9 (Killed)"}}) {
      tasks("is " + task + " && " + end + "; stay");
      const auto done = launch("--workers 2 --servers 2 --grace 0");
      EXPECT_EQ(done.code, code) << done.err;
      EXPECT_EQ(last_line_of(done.err),
                "troupe: " + task + " failed first: " + reason);
    }
}

TEST_F(LaunchServers, StartKilledWorkersAndServersAgain) {
  tasks("if is chief 0; then hear go; hear go; exit 0; fi\n"
        "if is worker 1; then me=w; else me=s; fi\n"
        "if is worker 0; then stay; fi\n"
        "if [ ! -e $me ]; then touch $me; kill -9 $$; fi\n"
        "echo again; tell go; stay");
  const auto done = launch("--workers 2 --servers 1 --restarts 2 --grace 100");
  EXPECT_EQ(done.code, 0) << done.err;
  const auto outputs = output_by_name(done.out);
  for (const std::string name : {"worker 1", "ps 0"}) {
    EXPECT_EQ(outputs.at(name), "again\n");
    EXPECT_NE(
      done.err.find("warning: " + name + " was killed; it is started again\n"),
      done.err.npos)
      << done.err;
  }
}

TEST_F(LaunchServers, DoNotStartTheChiefAgain) {
  // The worker has used up the restart.
  tasks("if is chief 0; then hear go; kill -9 $$; fi\n"
        "if is ps 0; then stay; fi\n"
        "if [ ! -e id ]; then touch id; kill -9 $$; fi; tell go; stay");
  const auto done = launch("--workers 1 --servers 1 --restarts 1 --grace 100");
  EXPECT_EQ(done.code, 137) << done.err;
  EXPECT_EQ(last_line_of(done.err),
            "troupe: chief 0 failed: signal 9 (Killed)");
  EXPECT_NE(done.err.find("worker 0 was killed; it is started again"),
            done.err.npos)
    << done.err;
  EXPECT_EQ(done.err.find("chief 0 was killed"), done.err.npos) << done.err;
}

TEST_F(LaunchServers, EndWhenNoWorkerIsLeft) {
  tasks("if is worker 0; then kill -9 $$; fi; stay");
  const auto done = launch("--workers 1 --servers 1 --restarts 1 --grace 100");
  EXPECT_EQ(done.code, 137) << done.err;
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 0 was the last worker: signal 9 (Killed)");
}

TEST_F(LaunchServers, TrainAsTheTasksOfTheTool) {
  const std::string training =
    " --data digits:280 --batch 20 --epochs 3 --quiet --summary s.json ";
  const auto expected = weights_of(
    "train --data digits:280 --batch 20 --epochs 3 --strategy one_device "
    "--replicas 2");
  const auto done =
    troupe("launch --workers 2 --servers 2 -- " TROUPE_TOOL " train" + training
           + "--strategy parameter_server --consistency sync");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(
    nlohmann::json::parse(text_of("s.json")).value("weights_sha256", "none"),
    expected);
}

TEST_F(LaunchServers, RejectOptionsThatDoNotFit) {
  const auto rejects = [&](const std::string& options,
                           std::initializer_list<const char*> texts) {
    expect_rejected("launch " + options + " -- true", 2, texts);
  };
  rejects("", {"-n N", "--workers N", "--servers P"});
  rejects("--servers 2", {"--servers 2", "--workers"});
  rejects("--workers 2", {"--workers 2", "--servers", "-n"});
  rejects("-n 3 --workers 2 --servers 1", {"-n 3", "leave -n out"});
  rejects("--workers 0 --servers 1", {"--workers 0:", "from 1 to 128"});
  rejects("--workers 1 --servers 129", {"--servers 129:", "from 1 to 128"});
  rejects("-n 2 --evaluator", {"--evaluator", "--servers"});
}

} // namespace
