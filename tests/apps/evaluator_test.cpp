#include "background.hpp"
#include "troupe/apps/troupe/base/file_version.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/tf_config.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <regex>
#include <string>
#include <vector>

// The evaluator of a run with parameter servers: a process that evaluates each
// version of the saved model.

namespace {

using namespace troupe;

class Evaluator : public worker_test {
protected:
  static constexpr auto training =
    "train --data digits:280 --batch 20 --consistency sync --workers 2 "
    "--servers 2 --evaluator --save m.troupe ";

  /// Returns what was printed of the versions, by step. A step that was printed
  /// again must have the same text.
  static std::map<int, std::string> versions_in(const std::string& out) {
    const std::regex line{"step (\\d+)  (test accuracy 0\\.\\d+  test loss "
                          "\\d+\\.\\d+)\n"};
    std::map<int, std::string> versions;
    for (std::sregex_iterator i{out.begin(), out.end(), line}, end; i != end;
         ++i) {
      const std::string text = (*i)[2];
      EXPECT_EQ(versions.emplace(std::stoi((*i)[1]), text).first->second, text)
        << out;
    }
    return versions;
  }

  /// Returns the command that starts a process as the evaluator of a cluster.
  /// @param variables as in NAME='value'.
  std::vector<std::string> in_cluster(const std::string& words,
                                      const std::string& variables = "") const {
    const net::cluster_spec cluster{
      std::map<std::string, net::cluster_spec::list>{
        {"chief", {"127.0.0.1:1"}},
        {"worker", {"127.0.0.1:2"}},
        {"ps", {"127.0.0.1:3"}}}};
    return {"/bin/sh", "-c",
            "cd " + folder.string() + " && exec env TF_CONFIG='"
              + net::write_tf_config(cluster, {"evaluator", 0}) + "' "
              + variables
              + " " TROUPE_TOOL " train --strategy parameter_server "
              + "--data digits:280 --batch 20 " + words + " 2>&1"};
  }

  static std::string earlier(const std::string& version) {
    return std::string{earlier_version_variable} + "='" + version + "'";
  }

  void save_complete_run() const {
    ASSERT_EQ(troupe("train --data digits:280 --batch 20 --epochs 1 --quiet "
                     "--save m.troupe")
                .code,
              0);
  }

  static pid_t evaluator_of(pid_t tool) {
    return child_with(tool, R"("type":"evaluator")");
  }

  /// Trains, and kills the evaluator when it has evaluated a version. Checks
  /// that no bit has changed.
  outcome train_and_kill(const std::string& options) const {
    child_options how;
    bool killed = false;
    how.on_error_output = [&](pid_t tool, const std::string& err) {
      if (killed || err.find("epoch 3/") == err.npos)
        return;
      killed = true;
      const auto target = evaluator_of(tool);
      ASSERT_GT(target, 0);
      EXPECT_EQ(::kill(target, SIGKILL), 0);
    };
    const std::string length = "--epochs 60 ";
    const auto done = troupe(training + length + options, how);
    EXPECT_TRUE(killed) << done.err;
    EXPECT_EQ(done.code, 0) << done.err;
    const auto expected =
      weights_of("train --data digits:280 --batch 20 --strategy one_device "
                 "--replicas 2 "
                 + length);
    EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
      << done.out << done.err;
    return done;
  }
};

TEST_F(Evaluator, EvaluatesTheVersionsOfARun) {
  const auto done = troupe(std::string{training} + "--epochs 5 --save-steps 5");
  EXPECT_EQ(done.code, 0) << done.err;
  const auto versions = versions_in(done.out);
  ASSERT_TRUE(versions.contains(60)) << done.out;
  EXPECT_NE(done.out.find("\n" + versions.at(60) + "  "), done.out.npos)
    << done.out;
  for (const auto& [step, text] : versions)
    EXPECT_TRUE(step % 5 == 0 || step % 12 == 0) << step;
}

/// The file of an earlier run has step 6, which the next one does not save.
TEST_F(Evaluator, DoesNotEvaluateTheFileOfAnEarlierRun) {
  ASSERT_EQ(troupe("train --data digits:280 --batch 40 --epochs 1 --quiet "
                   "--save m.troupe")
              .code,
            0);
  const auto variable = std::string{earlier_version_variable} + "="
                        + version_of(folder / "m.troupe");
  bool has_variable = false;
  child_options options;
  options.on_error_output = [&](pid_t tool, const std::string&) {
    has_variable = has_variable || child_with(tool, variable) > 0;
  };
  const auto done = troupe(std::string{training} + "--epochs 2", options);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(has_variable) << done.err;
  const auto versions = versions_in(done.out);
  EXPECT_TRUE(versions.contains(24)) << done.out;
  EXPECT_FALSE(versions.contains(6)) << done.out;
}

/// It waits for another version than that of the variable.
TEST_F(Evaluator, SkipsTheVersionOfItsVariableOnly) {
  save_complete_run();
  const auto version = version_of(folder / "m.troupe");
  for (const std::string other : {"", "another one"}) {
    const auto done = run_child(in_cluster("--save m.troupe", earlier(other)));
    EXPECT_EQ(done.code, 0) << done.out;
    EXPECT_TRUE(versions_in(done.out).contains(12)) << done.out;
  }
  background_process waiting{in_cluster("--save m.troupe", earlier(version))};
  EXPECT_EQ(waiting.line(std::chrono::seconds{2}), "[no line]");
  put("m.troupe", "no model");
  const auto line = waiting.line();
  EXPECT_NE(line.find("this version of the model is not evaluated"), line.npos)
    << line;
  waiting.signal(SIGTERM);
  EXPECT_EQ(waiting.end(), 0);
}

TEST_F(Evaluator, ChangesNothingIfItIsKilled) {
  const auto done = train_and_kill("");
  EXPECT_FALSE(versions_in(done.out).contains(720)) << done.out;
}

TEST_F(Evaluator, IsStartedAgain) {
  const auto done = train_and_kill("--restarts 1");
  EXPECT_NE(done.err.find("evaluator 0 was killed; it is started again"),
            done.err.npos)
    << done.err;
  EXPECT_TRUE(versions_in(done.out).contains(720)) << done.out;
}

TEST_F(Evaluator, EndsWithAnInterruptedRun) {
  using clock = std::chrono::steady_clock;
  auto interrupted = clock::time_point::max();
  child_options options;
  options.on_error_output = [&](pid_t, const std::string& err) {
    if (err.find("interrupted after step 30") != err.npos)
      interrupted = std::min(interrupted, clock::now());
  };
  const auto done =
    troupe(std::string{training} + "--epochs 5 --max-steps 30", options);
  EXPECT_EQ(done.code, 130) << done.err;
  // It does not wait for the end of the grace period, which is 10 s.
  EXPECT_LT(clock::now() - interrupted, std::chrono::seconds{6});
  EXPECT_EQ(weights_of("train --resume m.troupe"),
            weights_of("train --data digits:280 --batch 20 --epochs 5 "
                       "--strategy one_device --replicas 2"));
}

/// The version that is there at the start may be that of an earlier run. It is
/// evaluated, but ends nothing.
TEST_F(Evaluator, IsATaskOfACluster) {
  save_complete_run();
  background_process waiting{in_cluster("--save m.troupe")};
  EXPECT_TRUE(versions_in(waiting.line() + "\n").contains(12));
  save_complete_run();
  EXPECT_TRUE(versions_in(waiting.line() + "\n").contains(12));
  EXPECT_EQ(waiting.end(), 0);
  const auto rejected = run_child(in_cluster(""));
  EXPECT_EQ(rejected.code, 2) << rejected.out;
  EXPECT_NE(rejected.out.find("--save FILE"), rejected.out.npos)
    << rejected.out;
}

/// A version that cannot be read is left out.
TEST_F(Evaluator, WaitsForAVersionUntilItIsToldToEnd) {
  put("m.troupe", "no model");
  background_process waiting{in_cluster("--save m.troupe")};
  const auto line = waiting.line();
  EXPECT_NE(line.find("this version of the model is not evaluated"), line.npos)
    << line;
  waiting.signal(SIGTERM);
  EXPECT_EQ(waiting.end(), 0);
}

} // namespace
